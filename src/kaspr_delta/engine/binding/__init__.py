"""Topics bound to Kafka or files: ingest appends to the Delta topic, export reads from it."""
