"""What `Application` hands out: topics, channels, tables and join results."""
