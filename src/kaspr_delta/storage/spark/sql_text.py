"""Structs, and CREATE and ALTER TABLE, in the text of SQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from kaspr_delta.spec.ddl import columns_of, quoted
from kaspr_delta.storage.dialect import SPARK, Dialect

if TYPE_CHECKING:
    from kaspr_delta.storage.layout import Layout
    from kaspr_delta.storage.namespace import Namespace
    from kaspr_delta.storage.spark.description import Description


def struct_of(columns: Iterable[str], dialect: Dialect = SPARK) -> str:
    """The SQL for columns as one struct.

    >>> struct_of(["key", "unit price"])
    "named_struct('key', `key`, 'unit price', `unit price`)"
    """
    return f"named_struct({', '.join(f'{dialect.text(name)}, {quoted(name)}' for name in columns)})"


def creation(namespace: Namespace, table: str, layout: Layout, properties: Mapping[str, str]) -> str:
    """CREATE TABLE unless it exists, with what may be said there: the rest of a declaration are ``alterations``."""
    location, storage = namespace.declared_location(table), layout.storage
    clauses = (
        f" {_clustered(storage.cluster_by)}" if storage.cluster_by else "",
        f" LOCATION {SPARK.text(location)}" if location is not None else "",
        f" COMMENT {SPARK.text(storage.comment)}" if storage.comment else "",
    )
    return (
        f"CREATE TABLE IF NOT EXISTS {namespace.identifier(table)} ({_commented(layout)}) USING DELTA{''.join(clauses)}"
        f" TBLPROPERTIES ({listed(properties)})"
    )


def _commented(layout: Layout) -> str:
    """The columns of a layout, with their comments."""
    comments = {name: f" COMMENT {SPARK.text(text)}" for name, text in layout.storage.column_comments}
    if not comments:
        return layout.columns
    return ", ".join(f"{column}{comments.get(column.name, '')}" for column in columns_of(layout.columns))


def alterations(
    namespace: Namespace, table: str, layout: Layout, described: Description | None
) -> Iterator[tuple[str, list[str]]]:
    """The missing parts of a table's declaration: each by its name, with its statements.

    ``described``: the table as it is; None for one that was created by this layout just now.
    """
    storage, identifier = layout.storage, namespace.identifier(table)
    alter = f"ALTER TABLE {identifier}"
    if described is not None:
        if storage.comment not in {"", described.comment}:
            yield "comment", [f"COMMENT ON TABLE {identifier} IS {SPARK.text(storage.comment)}"]
        if lacking := [one for one in storage.column_comments if one not in described.column_comments]:
            columns = ((quoted(name), SPARK.text(text)) for name, text in lacking)
            yield "column comments", [f"{alter} ALTER COLUMN {name} COMMENT {text}" for name, text in columns]
        if missing := {name: value for name, value in storage.properties if not described.has(name, value)}:
            yield "properties", [f"{alter} SET TBLPROPERTIES ({listed(missing)})"]
        if storage.cluster_by:
            yield "clusterBy", [f"{alter} {_clustered(storage.cluster_by)}"]
    if not namespace.on_databricks:  # a folder has nothing of the rest
        return
    if storage.clusters_itself:
        yield "clusterBy", [f"{alter} CLUSTER BY AUTO"]
    if storage.tags:
        yield "tags", [f"{alter} SET TAGS ({listed(dict(storage.tags))})"]
    if storage.primary_key and not (described and described.has_primary_key):
        key = list(map(quoted, layout.key))
        constraint = f"CONSTRAINT {quoted(f'pk_{table}')} PRIMARY KEY ({', '.join(key)}) NOT ENFORCED RELY"
        filled = (f"{alter} ALTER COLUMN {column} SET NOT NULL" for column in key)
        yield "primaryKey", [*filled, f"{alter} ADD {constraint}"]


def _clustered(columns: Iterable[str]) -> str:
    return f"CLUSTER BY ({', '.join(map(quoted, columns))})"


def listed(properties: Mapping[str, str]) -> str:
    """Table properties as SQL lists them."""
    return ", ".join(f"{SPARK.text(name)} = {SPARK.text(value)}" for name, value in properties.items())
