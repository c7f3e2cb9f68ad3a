"""Environment variables that are read, and the values without them."""

import os

WAREHOUSE_VARIABLE = "KASPR_DELTA_WAREHOUSE"
DEFAULT_WAREHOUSE = ".kaspr-delta"
JOB_FRAMEWORK = "kaspr-delta"
"""The tag ``framework`` of every deployed job, by which they are found."""

PURPOSE_TAG = "purpose"
"""The tag of the job that operates an application; its value is ``OPERATION``."""

OPERATION = "operation"
"""The first argument of that job's task. Then come the folder of the manifests, the command as text, and options."""

OLDEST_ENVIRONMENT, OLDEST_RUNTIME = 4, 17
"""The oldest environment of serverless compute, and Databricks Runtime, with Spark 4: Spark 3 has no `toArrow`."""

GRANT = "--grant"
"""The option of a run and of the doctor that names a grant."""

OPERATION_PARAMETER = "command"
"""The parameter of that job that holds the command."""

APPLICATION_MARK = "kaspr.application"
"""The property of a schema of Unity Catalog that names the application that made it."""

SQL_WAREHOUSE_VARIABLE = "DATABRICKS_WAREHOUSE_ID"
"""Names the SQL warehouse through which tables of Unity Catalog are read without Spark."""

APP_PORT_VARIABLE = "DATABRICKS_APP_PORT"
"""Set in a Databricks App: where it has to listen."""


def warehouse_location(given: str | None) -> str:
    """The location of the warehouse: the given one, or that of the environment, or the default."""
    return given or os.environ.get(WAREHOUSE_VARIABLE) or DEFAULT_WAREHOUSE
