"""Files of rows: one way to read CSV, TSV, JSON lines and Parquet, for tables and for topics."""
