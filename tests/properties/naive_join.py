"""A naive model of a join: its rows computed from two dictionaries, and the state of its channel or change feed.

Keys and values are JSON text: as Python objects 1, 1.0 and True would be one key.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol

Texts = dict[str, str]
Pairs = dict[str, tuple[str, "str | None"]]  # by left key: left and right


class Fields(Protocol):
    """A row, of Spark or as a dictionary."""

    def __getitem__(self, name: str, /) -> Any: ...


_TAKES_AWAY = ("delete", "update_preimage")


def text(value: Any) -> str:
    """A key or a value as tables store it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@dataclass
class Sides:
    """Both tables of a join."""

    left: Texts = field(default_factory=dict)
    right: Texts = field(default_factory=dict)

    def __getitem__(self, side: str) -> Texts:
        return self.left if side == "left" else self.right

    def foreign_keys(self) -> Texts:
        """The foreign keys, by left key."""
        found = {key: json.loads(value)["fk"] for key, value in self.left.items()}
        return {key: text(fk) for key, fk in found.items() if fk is not None}

    def joined(self, join_type: str) -> Pairs:
        """The rows of the join."""
        points_at = self.foreign_keys()
        pairs = {key: (value, self.right.get(points_at.get(key, ""))) for key, value in self.left.items()}
        return {key: pair for key, pair in pairs.items() if join_type == "left" or pair[1] is not None}


def folded(channel: Iterable[Fields]) -> Pairs:
    """The state that the records of a channel, in order, add up to. Asserts that every record changes it."""
    pairs: Pairs = {}
    for record in channel:
        before = pairs.pop(record["key"], None)
        after = (record["left"], record["right"]) if record["kind"] == "value" else None
        assert after != before, f"a record without a change: {record}"
        if after is not None:
            pairs[record["key"]] = after
    return pairs


def replayed(feed: Sequence[Fields]) -> Pairs:
    """The state that a result's whole change feed adds up to. Asserts that every change fits and changes the state."""
    pairs: Pairs = {}
    version = itemgetter("_commit_version")
    for _, changes in groupby(sorted(feed, key=version), key=version):
        gone: Pairs = {}
        came: Pairs = {}
        for change in changes:
            place = gone if change["_change_type"] in _TAKES_AWAY else came
            assert change["key"] not in place, f"two changes of a key in one commit: {change}"
            place[change["key"]] = (change["left"], change["right"])
        for key, pair in gone.items():
            assert pairs.pop(key, None) == pair, f"{key}: {pair} goes, but was not there"
        for key, pair in came.items():
            assert key not in pairs, f"{key}: {pair} comes where {pairs[key]} is"
            assert gone.get(key) != pair, f"{key}: a change that changes nothing: {pair}"
            pairs[key] = pair
    return pairs
