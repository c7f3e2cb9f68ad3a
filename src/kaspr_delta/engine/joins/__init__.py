"""Joins: what all shapes share, and one room a shape."""
