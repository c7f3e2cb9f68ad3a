"""Regular expressions in manifests, and the topics whose names match one.

Python's own matching may take years for a pattern such as ``(a+)+b``. RE2, which comes with Arrow, takes time in
proportion to the name. It has no lookaheads; those that begin a pattern are matched on their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST_PATTERN = 1_000
"""Characters. Names of topics have at most 249."""

_LOOKAHEADS = {"(?!": False, "(?=": True}


def expression_problem(text: str) -> str | None:
    """The reason why a text is no regular expression of Python, or None."""
    if len(text) > LONGEST_PATTERN:
        return f"it has more than {LONGEST_PATTERN:,} characters"
    try:
        re.compile(text)
    except (re.error, OverflowError) as error:
        return str(error)
    except RecursionError:
        return "its parentheses are nested too deeply"
    return None


def pattern_problem(text: str) -> str | None:
    """The reason why a text is no pattern for names of topics, or None."""
    problem = expression_problem(text)
    if problem is None and _parts(text) is None:
        return "lookbehinds, back references, and lookaheads behind the beginning may take forever"
    return problem


def matching(pattern: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names that match a pattern without problems as a whole, sorted."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pa.array(sorted(names), pa.string())
    for expression, wanted in _parts(pattern) or ():
        matches = pc.match_substring_regex(found, pattern=expression)
        found = found.filter(matches if wanted else pc.invert(matches))
    return tuple(found.to_pylist())


def _parts(pattern: str) -> tuple[tuple[str, bool], ...] | None:
    """Expressions for RE2 that a name must match, or must not; None if there are none."""
    wanted = _LOOKAHEADS.get(pattern[:3])
    if wanted is None:
        return ((f"^(?:{pattern})$", True),) if _is_of_re2(pattern) else None
    for close in re.compile(r"\)").finditer(pattern, 3):  # each may close the first lookahead
        ahead, rest = pattern[3 : close.start()], pattern[close.end() :]
        others = _parts(rest) if _is_of_re2(ahead) else None
        if others is not None:
            return ((f"^(?:{ahead})", wanted), *others)
    return None


def _is_of_re2(expression: str) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), pattern=f"^(?:{expression})$")
    except pa.ArrowInvalid:
        return False
    return True
