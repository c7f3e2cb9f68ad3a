"""How rows and records differ from those that a fixture expects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import networkx as nx

from kaspr_delta.spec.fixture import ANY

Fields = Mapping[str, Any]
"""A row, record or dead letter as JSON; an expected one has only the fields that are compared."""


def differences(expected: Sequence[Fields], found: Sequence[Fields]) -> Iterator[str]:
    """A sentence for each difference.

    Those with one key are compared in their order; the windows of a key are distinguished where an expected one names
    its window. The order of different keys does not count, nor does that of expected ones without a key: as many of
    these as possible take one with another key that equals them.
    """
    windows = any("window_start" in one for one in expected)
    keys = {_key(one, windows=windows): None for one in (*expected, *found)}
    named = {_key(one, windows=windows) for one in expected}
    rest = [one for one in found if _key(one, windows=windows) not in named]
    without = [one for one in expected if _key(one, windows=windows) is None]
    for key in keys:
        if key is not None and (key in named or not without):
            of_key = [[one for one in some if _key(one, windows=windows) == key] for some in (expected, found)]
            yield from _paired(*of_key)
    if without:
        yield from _paired(*_unmatched(without, rest))


def _key(one: Fields, *, windows: bool) -> str | None:
    """The key, and its window if these are distinguished, as text; None for an expected one that has none, or any."""
    if "key" not in one or one["key"] == ANY:
        return None
    return json.dumps([one["key"], one.get("window_start") if windows else None], sort_keys=True)


def _unmatched(expected: Sequence[Fields], found: Sequence[Fields]) -> tuple[list[Fields], list[Fields]]:
    """Those that are left when as many expected ones as possible have each taken one that equals it."""
    equal: nx.Graph[tuple[str, int]] = nx.Graph()
    wanted = [("expected", at) for at in range(len(expected))]
    equal.add_nodes_from(wanted)
    for at, one in enumerate(expected):
        for other_at, other in enumerate(found):
            if not any(_unlike(one, other, "")):
                equal.add_edge(("expected", at), ("found", other_at))
    taken = nx.bipartite.hopcroft_karp_matching(equal, wanted)
    missing = [one for at, one in enumerate(expected) if ("expected", at) not in taken]
    return missing, [one for at, one in enumerate(found) if ("found", at) not in taken]


def _paired(expected: Sequence[Fields], found: Sequence[Fields]) -> Iterator[str]:
    """The differences of each expected one and the found one in its place."""
    for one, other in zip_longest(expected, found):
        if other is None:
            yield f"missing: {_text(one)}"
        elif one is None:
            yield f"not expected: {_text({name: value for name, value in other.items() if name != 'offset'})}"
        else:
            yield from (f"{_text(other.get('key'))}: {unlike}" for unlike in _unlike(one, other, ""))


def _unlike(expected: Any, found: Any, path: str) -> Iterator[str]:
    """The differences inside a value, each with its path. At the top only the expected fields are compared."""
    if expected == ANY:
        return
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for name in expected if not path else {**expected, **found}:
            below = f"{path}.{name}" if path else str(name)
            if name not in found:
                yield f"{below} is missing, expected {_text(expected[name])}"
            elif name not in expected:
                yield f"{below} is not expected, found {_text(found[name])}"
            else:
                yield from _unlike(expected[name], found[name], below)
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for at, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from _unlike(one, other, f"{path}[{at}]")
    elif isinstance(expected, bool) is not isinstance(found, bool) or expected != found:
        yield f"{path} is {_text(found)}, expected {_text(expected)}"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
