"""The error of a step that checks its own effect."""

from __future__ import annotations


class WrongError(Exception):
    """The application did not do what its documentation promises."""
