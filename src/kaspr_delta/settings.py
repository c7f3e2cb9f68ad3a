"""Environment variables that are read, and what holds without them."""

WAREHOUSE_VARIABLE = "KASPR_DELTA_WAREHOUSE"
DEFAULT_WAREHOUSE = ".kaspr-delta"
JOB_FRAMEWORK = "kaspr-delta"
"""The tag ``framework`` of every deployed job, by which they are found."""
