"""Boxes and lines as a picture, for the pages and for notebooks."""
