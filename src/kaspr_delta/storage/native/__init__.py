"""Delta tables in a folder of this machine by delta-rs, and by Spark where delta-rs does not support a table."""
