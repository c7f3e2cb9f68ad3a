"""Cases whose results may differ from Kafka Streams, and the reasons. They are run, and listed if they differ."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from tests.oracle.case import Case

# By pattern of a case's name or of one of its tags.
KNOWN_DIFFERENCES: Mapping[str, str] = {
    "quirk-emit on close with the default retention*": (
        "Kafka Streams forgets windows that are older than its store's retention; here every window is emitted"
    ),
    "store-dependent": "what Kafka Streams answers depends on the kind of its state store",
}


def reason_to_differ(case: Case) -> str | None:
    """The reason why a case may differ, or None if it must not."""
    names = (case.name, *case.tags)
    return next(
        (why for pattern, why in KNOWN_DIFFERENCES.items() if any(fnmatchcase(name, pattern) for name in names)), None
    )
