"""Joins: what all shapes share, the join of two tables by their keys, and one room for each other shape."""
