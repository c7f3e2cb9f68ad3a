"""How a table of an application is stored: the block ``storage`` of tables and joins."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated, Literal

from pydantic import Field

from kaspr_delta.spec.base import Boolean, Problem, Spec, Text, TextMap, optional

_MOST_COLUMNS = 4  # of a clustered table, says Delta
# Properties that the engine sets, in lower case, with the reason or the remedy.
_OWNED = {
    "comment": "write `description`",
    "delta.appendonly": "rows are changed and deleted",
    "delta.checkpointinterval": "commits are counted on it",
    "delta.dataskippingnumindexedcols": "look-ups rely on the statistics",
    "delta.dataskippingstatscolumns": "look-ups rely on the statistics",
    "delta.deletedfileretentionduration": "set `feedRetention` in the KasprApp's `config`",
    "delta.enablechangedatafeed": "its changes are followed",
    "delta.logretentionduration": "set `feedRetention` in the KasprApp's `config`",
    "delta.settransactionretentionduration": "a batch that is repeated is recognized by its transaction",
}
_MAPPING = "delta.columnMapping.mode"


class TableStorage(Spec):
    """How a Delta table is stored: that of a KasprTable, of the result of a join, or of the channel of a join."""

    cluster_by: Literal["auto"] | Annotated[list[Text], Field(min_length=1)] | None = optional(
        "the columns by which its files are clustered, or `auto`, which lets Databricks choose"
    )
    properties: TextMap = Field(default_factory=dict, description="table properties, as in `delta.enableRowTracking`")
    tags: TextMap = Field(default_factory=dict, description="tags of Unity Catalog on Databricks")
    primary_key: Boolean = Field(
        default=False, description="whether it has its key as PRIMARY KEY, NOT ENFORCED RELY, on Databricks"
    )

    def problems(self) -> Iterator[Problem]:
        for name, value in self.properties.items():
            reason = _OWNED.get(name.lower()) or ("it has a meaning here" if name.startswith("kaspr") else None)
            if reason:
                yield Problem(f"'{name}' is set by the engine: {reason}", "remove it", ("properties", name))
            elif name.lower() == _MAPPING.lower() and value != "name":
                hint = f"write `{_MAPPING}: name`, or remove it"
                yield Problem(f"'{value}' is no mode of columns that the engine can write", hint, ("properties", name))

    def problems_of_table(self, columns: Collection[str]) -> Iterator[Problem]:
        """The problems for a table that has statistics of these columns; below ``storage``."""
        names = [] if self.cluster_by is None or self.cluster_by == "auto" else self.cluster_by
        if len(names) > _MOST_COLUMNS or len(set(names)) < len(names):
            message = f"'clusterBy' names up to {_MOST_COLUMNS} columns, each once"
            yield Problem(message, "remove some", ("clusterBy",))
        for place, name in enumerate(names):
            if name not in columns:
                hint = f"columns with statistics are: {', '.join(columns) or 'none'}"
                yield Problem(f"a table cannot be clustered by '{name}'", hint, ("clusterBy", place))

    def problems_of_channel(self) -> Iterator[Problem]:
        """The problems for a channel: its rows are records in the order of their arrival; below ``storage``."""
        for field, given in (("clusterBy", self.cluster_by is not None), ("primaryKey", self.primary_key)):
            if given:
                message = f"'{field}' is for tables with a row for each key, and this join gives a channel"
                yield Problem(message, "remove it", (field,))
