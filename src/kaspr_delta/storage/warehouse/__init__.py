"""Delta tables of Unity Catalog by statements of a SQL warehouse, for processes without Spark."""
