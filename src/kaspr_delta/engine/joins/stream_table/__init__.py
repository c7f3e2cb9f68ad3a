"""Joins of a stream with a table."""
