"""The plan of a table's declaration: all that it has beside its rows and columns."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from kaspr_delta.spec.storage import TableStorage


@dataclass(frozen=True, slots=True)
class StoragePlan:
    """The declaration of a table: its comment, and the block ``storage``."""

    comment: str = ""
    cluster_by: tuple[str, ...] = ()
    clusters_itself: bool = False
    properties: tuple[tuple[str, str], ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    primary_key: bool = False

    @classmethod
    def of(cls, description: str, storage: TableStorage | None) -> StoragePlan:
        """The plan for a resource with a description; None: it has no block."""
        if storage is None:
            return cls(description.strip())
        return cls(
            comment=description.strip(),
            cluster_by=() if storage.cluster_by == "auto" else tuple(storage.cluster_by or ()),
            clusters_itself=storage.cluster_by == "auto",
            properties=tuple(sorted(storage.properties.items())),
            tags=tuple(sorted(storage.tags.items())),
            primary_key=storage.primary_key,
        )

    @property
    def fingerprint(self) -> str:
        """A text that differs between declarations; empty if nothing is declared."""
        return "" if self == StoragePlan() else json.dumps(asdict(self), ensure_ascii=False)
