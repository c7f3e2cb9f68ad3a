"""How rows and records differ from those that a fixture expects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

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
    equal = [[at for at, other in enumerate(found) if not any(_unlike(one, other, ""))] for one in expected]
    chosen = largest_matching(equal)
    taken = set(chosen.values())
    missing = [one for at, one in enumerate(expected) if at not in chosen]
    return missing, [one for at, one in enumerate(found) if at not in taken]


def largest_matching(choices: Sequence[Sequence[int]]) -> dict[int, int]:
    """A choice for as many as possible, by their place in ``choices``; no two have the same one.

    >>> largest_matching([[7, 8], [7], [7]])
    {0: 8, 1: 7}
    """
    chosen: dict[int, int] = {}
    for start in range(len(choices)):
        # An augmenting path: from one that has no choice, over those that have what others could take, to a free one.
        takers = {choice: one for one, choice in chosen.items()}
        wants: dict[int, int] = {}
        waiting = [start]
        while waiting:
            one = waiting.pop()
            new = {choice: one for choice in choices[one] if choice not in wants}
            wants |= new
            free = next((choice for choice in new if choice not in takers), None)
            if free is not None:
                _move(chosen, wants, free)
                break
            waiting.extend(takers[choice] for choice in new)
    return chosen


def _move(chosen: dict[int, int], wants: dict[int, int], free: int | None) -> None:
    """Give a free choice to the one that wants it, that one's earlier choice to the one that wants this, and so on."""
    while free is not None:
        one = wants[free]
        earlier = chosen.get(one)
        chosen[one] = free
        free = earlier


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
