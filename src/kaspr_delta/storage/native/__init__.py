"""Delta tables in a folder, here or in a bucket, by delta-rs, and by Spark where delta-rs does not support a table."""
