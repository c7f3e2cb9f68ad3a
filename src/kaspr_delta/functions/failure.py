"""Failures of an author's function, as opposed to a Ctrl-C, and their description."""

from __future__ import annotations

import signal
import threading
import traceback
from dis import opmap

from kaspr_delta.errors import SparkNeededError

AUTHORS_CODE_FAILED = BaseException
"""The exceptions that an author's function may raise. A handler calls one of the functions below first."""


def pass_on_interruption(error: BaseException) -> None:
    """Raise the error again if it is no failure of the function.

    Where a table of the function can be read with Spark only, Spark starts, and the event comes again. Ctrl-C stops the
    run.

    Signals interrupt the main thread only, between any two steps. A KeyboardInterrupt that comes from a ``raise``
    statement is the function's own, unless the statement belongs to a handler of the signal.
    """
    if isinstance(error, SparkNeededError):
        raise error
    if not isinstance(error, KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if at is None:
        return
    from asyncio import runners  # as late as in ``call``

    code = at.tb_frame.f_code
    handler = getattr(signal.getsignal(signal.SIGINT), "__code__", None)
    handles_signals = code is handler or code.co_filename == runners.__file__
    if handles_signals or code.co_code[at.tb_lasti] != opmap["RAISE_VARARGS"]:
        raise error


def account_of_failure(error: BaseException, frames: int) -> str:
    """The traceback of an author's error that is being handled, with its last ``frames`` frames.

    Raises the error again if it is no failure, see ``pass_on_interruption``. A message may quote text that has no
    UTF-8, such as a lone surrogate: it is escaped, because no column can hold it.
    """
    pass_on_interruption(error)
    return traceback.format_exc(limit=-frames).encode("utf-8", "backslashreplace").decode()
