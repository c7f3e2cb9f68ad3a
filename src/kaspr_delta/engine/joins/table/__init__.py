"""Joins of two tables by their keys."""
