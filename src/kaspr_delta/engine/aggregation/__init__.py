"""Tables that are made from streams and tables: values grouped by a key, and folded into one per group."""
