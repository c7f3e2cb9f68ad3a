"""The account of a failure of an author's function."""

from __future__ import annotations

import traceback
from asyncio import CancelledError

from kaspr_delta.functions.time_limit import EventTimeoutError

AUTHORS_CODE_FAILED = (Exception, SystemExit, CancelledError, EventTimeoutError)
"""The exceptions that an author's function may raise. Other exceptions have other causes."""


def account_of_failure(frames: int) -> str:
    """The traceback of the exception being handled, with its last ``frames`` frames.

    A message may quote text that has no UTF-8, such as a lone surrogate: it is escaped, because no column can hold it.
    """
    return traceback.format_exc(limit=-frames).encode("utf-8", "backslashreplace").decode()
