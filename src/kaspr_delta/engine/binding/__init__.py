"""Topics elsewhere: what comes in from Kafka or files is appended to the Delta topic, what goes out is read from it."""
