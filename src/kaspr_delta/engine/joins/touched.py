"""The keys that a batch touched. The change feed is used only to learn which keys changed.

Here a batch becomes small or large: a small one has its keys, and then its rows, on the driver (see ``rows.rows``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import narwhals as nw
import pyarrow as pa

from kaspr_delta.engine.rows.local_rows import LocalRows, fetched, small_together
from kaspr_delta.engine.rows.rows import TRUE, Rows, exists, first_of, text, with_problem
from kaspr_delta.engine.streams.selector import HOW_TO_WRITE_KEYS, NULL_KEY, why_no_key
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.storage.limits import Limits


class Touched(NamedTuple):
    """The distinct touched keys by side (columns key, changed_at), and ``refused``: those that cannot be joined.

    ``refused`` are rows of the log that change nothing: columns key, kind, timestamp, problem, failed. ``versions`` has
    the newest commit that touched a key, by side; None if there are too many changes.
    """

    keys: Mapping[str, Rows]
    refused: Rows
    number: int
    versions: Mapping[str, int] | None = None


def touched_keys(changes: Rows, texts: Mapping[str, TableText], limits: Limits) -> Touched:
    """Each changed key, once, with its last change: from columns side, key, changed_at, version.

    One Spark job; for many changes two. Up to ``Limits.changes``, which a first load or a long backlog exceeds, the
    keys are collected, also those of a large batch: Spark broadcasts them, and shuffles no table for them. ``texts`` by
    side.
    """
    found = fetched(changes.select("side", "key", "changed_at", "version"), limits.changes)
    versions = _newest_versions(found.table, texts) if isinstance(found, LocalRows) else None
    every = found.select("side", "key", "changed_at")
    every = every.newest(("side", "key"), ("changed_at",)).extend(CheckKeys(texts), "reason STRING")
    fit = every.filter(nw.col("reason").is_null())
    by_side = (fit.filter(nw.col("side") == side).select("key", "changed_at") for side in texts)
    refused, *keys = small_together(limits.small_batch, _refused(every.filter(exists("reason"))), *by_side)
    return Touched(dict(zip(texts, keys, strict=True)), refused, every.count(), versions)


def _newest_versions(changes: pa.Table, sides: Iterable[str]) -> dict[str, int]:
    """The newest version by side; -1 for a side without changes."""
    newest = changes.group_by("side").aggregate([("version", "max")]).to_pylist()
    return dict.fromkeys(sides, -1) | {row["side"]: row["version_max"] for row in newest}


@dataclass(frozen=True, slots=True)
class CheckKeys:
    """Adds the reason why a touched key cannot be joined, in a column ``reason`` (NULL: it can)."""

    texts: Mapping[str, TableText]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            sides, keys = batch.column("side").to_pylist(), batch.column("key").to_pylist()
            reasons = [why_no_key(self.texts[side], key) for side, key in zip(sides, keys, strict=True)]
            yield batch.append_column("reason", pa.array(reasons, pa.string()))


def _refused(keys: Rows) -> Rows:
    hint = first_of(
        (nw.col("reason") == NULL_KEY, text("a row without a key belongs to nothing: give it a key or delete it")),
        otherwise=nw.concat_str(text(f"{HOW_TO_WRITE_KEYS}; table: "), nw.col("side")),
    )
    rows = with_problem(keys, exists("reason"), reason=nw.col("reason"), detail=hint, value=text(None))
    rows = rows.with_columns(kind=text("state"), timestamp=nw.col("changed_at"), failed=TRUE)
    return rows.select("key", "kind", "timestamp", "problem", "failed")
