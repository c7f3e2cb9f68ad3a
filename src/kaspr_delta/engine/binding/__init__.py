"""Topics bound to Kafka or files: ingest appends their records to the Delta topic, export writes its records out."""
