"""Privileges on a schema of Unity Catalog, granted where they are missing. Nobody loses any."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaspr_delta.errors import SetupError, UsageError
from kaspr_delta.spec.ddl import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kaspr_delta.storage.namespace import Namespace

# https://docs.databricks.com/data-governance/unity-catalog/manage-privileges/privileges.html
PRIVILEGES = frozenset({"ALL PRIVILEGES", "CREATE TABLE", "MANAGE", "MODIFY", "SELECT", "USE SCHEMA"})


@dataclass(frozen=True, slots=True)
class Grant:
    """Privileges of a principal: a user, a group, or a service principal by its application id."""

    principal: str
    privileges: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Grant:
        """The grant that a text says. Raises UsageError.

        >>> Grant.of("data team=USE SCHEMA,SELECT")
        Grant(principal='data team', privileges=('USE SCHEMA', 'SELECT'))
        """
        principal, _, listed = text.rpartition("=")
        privileges = tuple(privilege.strip() for privilege in listed.split(","))
        if not principal or not PRIVILEGES.issuperset(privileges):
            raise UsageError(f"grant {text!r}: expected PRINCIPAL=PRIVILEGE,… with {', '.join(sorted(PRIVILEGES))}")
        return cls(principal, privileges)


def grant_missing(spark: SparkSession, namespace: Namespace, grants: Iterable[Grant]) -> None:
    """Grant what is missing on the schema.

    Raises SetupError, with the statement, where this user may not grant, and UsageError in a folder.
    """
    from pyspark.errors import PySparkException

    for grant in grants:
        if not namespace.on_databricks:
            raise UsageError("only a catalog has grants: leave --grant out in a folder")
        principal = quoted(grant.principal)
        found = spark.sql(f"SHOW GRANTS {principal} ON SCHEMA {namespace.schema}").collect()
        # Databricks shows privileges with blanks, or as its API calls them.
        held = {row["ActionType"].replace("_", " ") for row in found if row["Principal"] == grant.principal}
        missing = [privilege for privilege in grant.privileges if privilege not in held]
        if missing:
            statement = f"GRANT {', '.join(missing)} ON SCHEMA {namespace.schema} TO {principal}"
            try:
                spark.sql(statement)
            except PySparkException as error:
                raise SetupError(f"the owner of the schema has to run {statement}: {error}") from error
