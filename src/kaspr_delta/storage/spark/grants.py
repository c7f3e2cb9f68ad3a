"""Privileges on a schema of Unity Catalog, granted where they are missing. Nobody loses any."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kaspr_delta.errors import SetupError, UsageError
from kaspr_delta.grant import Grant
from kaspr_delta.spec.ddl import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kaspr_delta.storage.namespace import Namespace


def grant_missing(
    spark: SparkSession, namespace: Namespace, grants: Iterable[Grant], *, internal: bool = False
) -> None:
    """Grant what is missing on the schema, or on that of the ``internal`` tables.

    Raises SetupError, with the statement, where this user may not grant, and UsageError in a folder.
    """
    from pyspark.errors import PySparkException

    for grant in grants:
        if not namespace.on_databricks:
            raise UsageError("only a catalog has grants: leave --grant out in a folder")
        schema = namespace.internal if internal else namespace.schema
        if schema is None:
            raise UsageError("internal tables have no schema of their own here: leave --grant-internal out")
        principal = quoted(grant.principal)
        found = spark.sql(f"SHOW GRANTS {principal} ON SCHEMA {schema}").collect()
        # Databricks shows privileges with blanks, or as its API calls them.
        held = {row["ActionType"].replace("_", " ") for row in found if row["Principal"] == grant.principal}
        missing = [privilege for privilege in grant.privileges if privilege not in held]
        if missing:
            statement = f"GRANT {', '.join(missing)} ON SCHEMA {schema} TO {principal}"
            try:
                spark.sql(statement)
            except PySparkException as error:
                raise SetupError(f"the owner of the schema has to run {statement}: {error}") from error
