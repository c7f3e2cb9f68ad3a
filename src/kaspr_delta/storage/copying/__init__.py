"""Copies of whole warehouses in folders, here and in buckets."""
