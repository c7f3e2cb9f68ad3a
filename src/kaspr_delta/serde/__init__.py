"""Convert Python objects to text and bytes, and back."""
