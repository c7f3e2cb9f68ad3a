"""Tables whose rows have columns: declared with a ``schema``, or a Delta table that others write (``source``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from kaspr_delta.spec.base import Problem, Spec, Text
from kaspr_delta.spec.bindings import absolute_path_problems
from kaspr_delta.spec.column_types import column_problems, key_problems
from kaspr_delta.spec.ddl import columns_of

# Fields of a table that holds keys and JSON values.
_OF_OTHERS = ("keySerializer", "valueSerializer", "window", "from")
_OF_WRITTEN = ("schema", "key", "extraTopicConfigs", "partitions")
_SCHEMA_HINT = "for example `schema: order_id STRING, price DECIMAL(10, 2)` and `key: order_id`"


class TableSource(Spec):
    """A Delta table that others write. Its change data feed tells what changes."""

    table: Text = Field(description="its name in the catalog (`catalog.schema.name`), or the path or URI of its folder")
    key: Annotated[list[Text], Field(min_length=1)] = Field(description="the columns that tell one row from another")

    def problems(self) -> Iterator[Problem]:
        if "/" in self.table:
            yield from absolute_path_problems(self.table, "table")
        elif not re.fullmatch(r"[^.\s]+\.[^.\s]+(\.[^.\s]+)?", self.table):
            hint = "write `catalog.schema.name`, `schema.name`, or the absolute path of its folder"
            yield Problem(f"'{self.table}' does not say where the table is", hint, ("table",))
        if len(set(self.key)) < len(self.key):
            yield Problem("a column stands twice in the key", "name each once", ("key",))


def typed_problems(written: Mapping[str, Any]) -> Iterator[Problem]:
    """The problems with combinations of ``schema``, ``key`` and ``source``; ``written`` is a table's ``spec``."""
    given = {name for name, value in written.items() if value is not None}
    if "source" in given:
        for field in (*_OF_WRITTEN, *_OF_OTHERS):
            if field in given:
                message = f"'{field}' is of tables that this application writes: 'source' (at {{other}}) excludes it"
                hint = "name the columns of the key in `source`" if field == "key" else "remove it"
                yield Problem(message, hint, (field,), ("source",))
        return
    if "schema" in given:
        for field in _OF_OTHERS:
            if field in given:
                yield Problem(
                    f"'schema' (at {{other}}) excludes '{field}'", "remove one of the two", (field,), ("schema",)
                )
        if "key" not in given:
            hint = "name the column, or a list of columns, that tells one row from another"
            yield Problem("'schema' needs 'key'", hint, ("schema",), absent=(("key",),))
    elif "key" in given:
        yield Problem("'key' names columns of a 'schema'", _SCHEMA_HINT, ("key",), absent=(("schema",),))


def schema_problems(schema: str | None, key: tuple[str, ...]) -> Iterator[Problem]:
    """The problems with declared columns and their key."""
    if schema is None:
        return
    try:
        columns = columns_of(schema)
    except ValueError as error:
        yield Problem(f"'schema' cannot be read: {error}", _SCHEMA_HINT, ("schema",))
        return
    for message, hint in column_problems(columns, written=True):
        yield Problem(message, hint, ("schema",))
    for message, hint in key_problems(columns, key):
        yield Problem(message, hint, ("key",))
