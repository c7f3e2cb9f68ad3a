"""Environment variables that are read, and what holds without them."""

WAREHOUSE_VARIABLE = "KASPR_DELTA_WAREHOUSE"
DEFAULT_WAREHOUSE = ".kaspr-delta"
JOB_FRAMEWORK = "kaspr-delta"
"""The tag ``framework`` of every deployed job, by which they are found."""

APP_PORT_VARIABLE = "DATABRICKS_APP_PORT"
"""Set in a Databricks App: where it has to listen."""
