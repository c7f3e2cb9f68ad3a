"""Near names: the most likely correction of a misspelt word."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like ``name``, capitals aside, or None when nothing is near.

    >>> nearest("leftTabel", ["rightTable", "leftTable"])
    'leftTable'
    """
    by_lower_case = {candidate.lower(): candidate for candidate in candidates}
    close = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=0.7)
    return by_lower_case[close[0]] if close else None


def listing(names: Iterable[str], conjunction: str = "and") -> str:
    """Quoted names as one phrase.

    >>> listing(["a", "b", "c"], "or")
    "'a', 'b' or 'c'"
    """
    quoted = [f"'{name}'" for name in names]
    if len(quoted) < 2:  # noqa: PLR2004  a single name needs no conjunction
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])} {conjunction} {quoted[-1]}"


def suggestion(name: str, candidates: Iterable[str], otherwise: str = "") -> str:
    """A hint that names the nearest candidate, or, if none is near, lists the candidates.

    ``otherwise`` introduces the list of candidates: "known here" gives "known here: 'a' and 'b'".
    """
    there = sorted(candidates)
    near = nearest(name, there)
    if near is not None:
        return f"did you mean '{near}'?"
    return f"{otherwise}: {listing(there)}" if otherwise and there else ""
