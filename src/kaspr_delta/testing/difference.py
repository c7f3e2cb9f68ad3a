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

    Those with one key are compared in their order. The order of different keys does not count, nor does that of
    expected ones without a key: each of these takes one with another key that equals it, if there is one.
    """
    keys = {_key(one): None for one in (*expected, *found)}
    named = {_key(one) for one in expected}
    rest = [one for one in found if _key(one) not in named]
    without = [one for one in expected if _key(one) is None]
    for key in keys:
        if key is not None and (key in named or not without):
            wanted = [one for one in expected if _key(one) == key]
            yield from _in_order(wanted, [one for one in found if _key(one) == key])
    if without:
        yield from _in_order(*_unmatched(without, rest))


def _key(one: Fields) -> str | None:
    """The key as text; None for an expected one that has none, or any."""
    return None if "key" not in one or one["key"] == ANY else _text(one["key"])


def _unmatched(expected: Sequence[Fields], found: Sequence[Fields]) -> tuple[list[Fields], list[Fields]]:
    """Those that are left when each expected one has taken the first that equals it."""
    left, missing = list(found), []
    for one in expected:
        equal = next((at for at, other in enumerate(left) if not any(_unlike(one, other, ""))), None)
        if equal is None:
            missing.append(one)
        else:
            del left[equal]
    return missing, left


def _in_order(expected: Sequence[Fields], found: Sequence[Fields]) -> Iterator[str]:
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
