from __future__ import annotations

import threading
from typing import Any

import pytest

from kaspr_delta.storage.lazy_session import is_running, lazy_session, session_of

SESSION: Any = object()


def test_other_threads_go_on_without_the_session_until_it_is_prepared() -> None:
    """A thread that holds the lock of a table must not wait for a preparation that waits for this lock."""
    table, preparing, seen = threading.Lock(), threading.Event(), list[bool]()

    def prepare(_: object) -> None:
        seen.append(is_running(spark))
        preparing.set()
        with table:
            pass

    spark = lazy_session(lambda _: SESSION, prepare)
    assert not is_running(spark)
    table.acquire()
    starting = threading.Thread(target=session_of, args=[spark])
    starting.start()
    assert preparing.wait(10)
    assert not is_running(spark)
    table.release()
    starting.join(10)
    assert not starting.is_alive()
    assert is_running(spark)
    assert session_of(spark) is SESSION
    assert seen == [True]


def test_a_session_whose_preparation_fails_is_started_again() -> None:
    outcomes = [OSError("no space"), None]

    def prepare(_: object) -> None:
        if error := outcomes.pop(0):
            raise error

    spark = lazy_session(lambda _: SESSION, prepare)
    with pytest.raises(OSError, match="no space"):
        session_of(spark)
    assert not is_running(spark)
    assert session_of(spark) is SESSION
