"""What a step raises where it is itself the judge."""

from __future__ import annotations


class WrongError(Exception):
    """Something did not go as it is promised."""
