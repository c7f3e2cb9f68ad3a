"""Reads for people that may fail: the reason stands in place of the value, and the log has the error."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from kaspr_delta.errors import KasprError

Result = TypeVar("Result")

_log = logging.getLogger(__name__)
_LONGEST = 300


# The last three are raised by JSON of an unexpected form, such as a log that another program wrote.
_ERRORS = (KasprError, OSError, ValueError, pa.ArrowException, LookupError, TypeError, AttributeError)


def read_errors() -> tuple[type[Exception], ...]:
    """The errors by which a table, a log or a checkpoint cannot be read."""
    return (*_ERRORS, *damage_errors())


def damage_errors() -> tuple[type[Exception], ...]:
    """The errors of a table with a damaged file."""
    try:
        from deltalake.exceptions import DeltaError
    except ImportError:  # a warehouse is read without delta-rs
        return (pa.ArrowException,)
    return (pa.ArrowException, DeltaError)


def readable(what: str, read: Callable[[], Result]) -> Result | str:
    """The result of a read; the reason, in one line, if ``what`` cannot be read."""
    try:
        return read()
    except read_errors() as error:
        # An error of this package says in its message what to do.
        _log.warning("%s cannot be read: %s", what, reason_of(error), exc_info=not isinstance(error, KasprError))
        return reason_of(error)


def reason_of(error: Exception) -> str:
    """The first line of an error's message, without the trace that delta-rs adds."""
    text = repr(error) if isinstance(error, LookupError) else str(error)
    lines = text.strip().splitlines()
    return lines[0][:_LONGEST] if lines else type(error).__name__
