"""Delta tables by Spark's SQL and DataFrame API, which run everywhere."""
