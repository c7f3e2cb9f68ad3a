"""Tables made from streams and tables: values are grouped by a key, and folded into one value per group."""
