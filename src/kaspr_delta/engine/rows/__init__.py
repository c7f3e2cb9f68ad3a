"""Rows on their way through a batch, tables by key, and values in columns."""
