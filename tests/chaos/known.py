"""What is known and not mended yet, and so neither done nor judged: by name, with the reason."""

from __future__ import annotations

LEFT_OUT: dict[str, str] = {
    "InsertColumn": "a column that is not the last one stops a join",
    "ClockBack": "checkpoints are put in order by the clock",
    "MoveColumn": "as InsertColumn",
}
"""Steps that are not drawn. A history that is replayed may have them."""

NOT_CLAIMED: dict[str, str] = {
    "feed of a made table": "a change feed of a count or sum has changes that change nothing",
}
"""Claims that are not judged."""
