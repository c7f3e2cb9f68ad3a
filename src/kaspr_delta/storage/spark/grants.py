"""Privileges on a schema of Unity Catalog, granted where they are missing. Nobody loses any."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kaspr_delta.errors import SetupError, UsageError, is_refusal
from kaspr_delta.grant import Grant
from kaspr_delta.spec.ddl import quoted
from kaspr_delta.storage.settled import Settled

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from kaspr_delta.storage.namespace import Namespace


# A tag that no table has.
_NO_TAG = "kaspr_doctor"


def grant_missing(
    spark: SparkSession,
    namespace: Namespace,
    grants: Sequence[Grant],
    on_internal: Sequence[Grant] = (),
    *,
    trusting: bool = False,
) -> None:
    """Grant what is missing on the schema, and on that of the internal tables.

    ``trusting`` asks nothing if the last run that asked found just these grants, or made them. Raises SetupError, with
    the statement, where this user may not grant, and UsageError in a folder.
    """
    if not (namespace.on_databricks or grants or on_internal):
        return
    if on_internal and namespace.internal is None:
        raise UsageError("internal tables have no schema of their own here: leave --grant-internal out")
    wanted = {namespace.schema: grants, namespace.internal or "": on_internal}
    settled, texts = Settled(namespace.checkpoints), {on: "\n".join(one.text for one in wanted[on]) for on in wanted}
    if trusting and settled.has_granted(texts):
        return
    settled.note_grants(None)
    for schema, wanted_there in wanted.items():
        _grant(spark, namespace, wanted_there, schema)
    settled.note_grants(texts)


def _grant(spark: SparkSession, namespace: Namespace, grants: Iterable[Grant], schema: str) -> None:
    from pyspark.errors import PySparkException

    for grant in grants:
        missing = missing_privileges(spark, namespace, grant, schema)
        if missing:
            statement = f"GRANT {', '.join(missing)} ON SCHEMA {schema} TO {quoted(grant.principal)}"
            try:
                spark.sql(statement)
            except PySparkException as error:
                raise SetupError(f"the owner of the schema has to run {statement}: {error}") from error


def missing_privileges(spark: SparkSession, namespace: Namespace, grant: Grant, schema: str | None = None) -> list[str]:
    """The privileges of a grant that the principal does not have on the schema. Raises UsageError in a folder.

    ``schema`` is quoted, and by default that of the namespace.
    """
    if not namespace.on_databricks:
        raise UsageError("only a catalog has grants: leave --grant out in a folder")
    return missing_on(spark, f"SCHEMA {schema or namespace.schema}", grant.privileges, grant.principal)


def missing_on(spark: SparkSession, held_on: str, privileges: Sequence[str], principal: str) -> list[str]:
    """The privileges that a principal does not have, as far as this user sees it.

    ``held_on`` is the kind of an object and its quoted name, as in ``CATALOG `main```. Grants to groups do not count.
    """
    granted = _privileges(spark, held_on, principal)
    wanted = {"MANAGE"} if "ALL PRIVILEGES" in granted else {*privileges}  # MANAGE is not among all privileges
    return [privilege for privilege in privileges if privilege in wanted - granted]


def may_grant(spark: SparkSession, schema: str) -> bool:
    """Whether this user, or a group of this user, owns a schema or manages it. ``schema`` is quoted."""
    (me,) = spark.sql("SELECT current_user() AS name").collect()
    described = spark.sql(f"DESCRIBE SCHEMA EXTENDED {schema}").collect()
    owners = [row[1] for row in described if row[0] == "Owner"]
    if me["name"] in owners or "MANAGE" in _privileges(spark, f"SCHEMA {schema}", me["name"]):
        return True
    managers = [row["Principal"] for row in spark.sql(f"SHOW GRANTS ON SCHEMA {schema}").collect() if _manages(row)]
    return any(_is_member(spark, group) for group in dict.fromkeys([*owners, *managers]))


def try_to_change(spark: SparkSession, table: str) -> None:
    """Raise the catalog's error if this user may not change a table. The table stays as it is. ``table`` is quoted.

    Delta commits nothing for a DELETE that finds no row. It refuses one for an append-only table, after the catalog has
    allowed it.
    """
    _try(spark, f"DELETE FROM {table} WHERE false")


def try_to_tag(spark: SparkSession, table: str) -> None:
    """Raise the catalog's error if this user may not change the tags of a table. ``table`` is quoted."""
    _try(spark, f"ALTER TABLE {table} UNSET TAGS ('{_NO_TAG}')")


def _try(spark: SparkSession, statement: str) -> None:
    """Execute a statement that changes nothing. Raises its error if that is about a missing privilege."""
    from pyspark.errors import PySparkException

    try:
        spark.sql(statement)
    except PySparkException as error:
        if is_refusal(error):
            raise


def _manages(row: Row) -> bool:
    return str(row["ActionType"]) == "MANAGE"


def _is_member(spark: SparkSession, group: str) -> bool:
    """Whether this user is in a group of the account; False where nothing tells that."""
    from pyspark.errors import PySparkException

    try:
        (found,) = spark.sql("SELECT is_account_group_member(:name) AS member", {"name": group}).collect()
    except PySparkException:
        return False
    return bool(found["member"])


def _privileges(spark: SparkSession, held_on: str, principal: str) -> set[str]:
    found = spark.sql(f"SHOW GRANTS {quoted(principal)} ON {held_on}").collect()
    # Databricks shows privileges with blanks, or as its API calls them.
    # The name of a user is the same in any case.
    same = (row for row in found if row["Principal"].casefold() == principal.casefold())
    return {row["ActionType"].replace("_", " ") for row in same}
