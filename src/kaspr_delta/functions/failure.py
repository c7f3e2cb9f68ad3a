"""What is told of an author's function that failed."""

from __future__ import annotations

import traceback
from asyncio import CancelledError

from kaspr_delta.functions.time_limit import EventTimeoutError

AUTHORS_CODE_FAILED = (Exception, SystemExit, CancelledError, EventTimeoutError)
"""What an author's function may raise; whatever else comes is not about the function."""


def account_of_failure(frames: int) -> str:
    """The traceback of the exception being handled, its last frames only.

    A message may quote text that has no UTF-8, a lone surrogate say: it is escaped, for no column could hold it.
    """
    return traceback.format_exc(limit=-frames).encode("utf-8", "backslashreplace").decode()
