"""The plan of a table's declaration: all that it has beside its rows and columns."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from kaspr_delta.spec.ddl import comments_of
from kaspr_delta.spec.storage import TableStorage


@dataclass(frozen=True, slots=True)
class StoragePlan:
    """The declaration of a table: its comment, those of its columns, and the block ``storage``."""

    comment: str = ""
    cluster_by: tuple[str, ...] = ()
    clusters_itself: bool = False
    properties: tuple[tuple[str, str], ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    primary_key: bool = False
    column_comments: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, description: str, storage: TableStorage | None, schema: str | None = None) -> StoragePlan:
        """The plan for a resource with a description, and a schema in DDL. None: it has no such block, or no schema."""
        comments = tuple(comments_of(schema).items()) if schema else ()
        if storage is None:
            return cls(description.strip(), column_comments=comments)
        return cls(
            comment=description.strip(),
            cluster_by=() if storage.cluster_by == "auto" else tuple(storage.cluster_by or ()),
            clusters_itself=storage.cluster_by == "auto",
            properties=tuple(sorted(storage.properties.items())),
            tags=tuple(sorted(storage.tags.items())),
            primary_key=storage.primary_key,
            column_comments=comments,
        )

    @property
    def only_comments(self) -> bool:
        """Whether nothing but comments is declared."""
        return self == StoragePlan(self.comment, column_comments=self.column_comments)

    @property
    def fingerprint(self) -> str:
        """A text that differs between declarations; empty if nothing is declared."""
        return "" if self == StoragePlan() else json.dumps(asdict(self), ensure_ascii=False)
