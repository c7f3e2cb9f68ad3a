from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import pytest

from kaspr_delta.functions import time_limit
from kaspr_delta.functions.time_limit import EventTimeoutError, at_most


@pytest.fixture(autouse=True)
def watched_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch looks ten times as often, and limits are as much shorter."""
    monkeypatch.setattr("kaspr_delta.functions.time_limit._POLL", 0.02)


def loop_for_ever() -> None:
    while True:
        pass


def until_late() -> None:
    while threading.get_ident() in time_limit._deadlines:
        pass


def stubborn() -> None:
    while True:
        with contextlib.suppress(Exception):
            loop_for_ever()


@pytest.mark.parametrize("block", [loop_for_ever, stubborn])
def test_a_block_that_never_ends_is_stopped_even_if_it_handles_exceptions(block: Callable[[], None]) -> None:
    with pytest.raises(EventTimeoutError), at_most(0.1):
        block()


def test_a_block_that_ends_in_time_and_later_code_are_not_stopped() -> None:
    for _ in range(3):
        with at_most(0.1):
            time.sleep(0.01)
    time.sleep(0.2)


def test_an_error_of_the_block_is_raised() -> None:
    with pytest.raises(ZeroDivisionError), at_most(10):
        _ = 1 / 0


def test_a_block_near_its_limit_ends_or_times_out() -> None:
    outcomes: list[str] = []
    for n in range(30):
        try:
            with at_most(0.015):
                end = time.monotonic() + 0.01 + n / 1_000
                while time.monotonic() < end:
                    pass
        except EventTimeoutError:
            outcomes.append("late")
        else:
            outcomes.append("ended")
        time.sleep(0.002)
    assert set(outcomes) == {"late", "ended"}


def test_the_error_of_a_slow_watch_arrives_in_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(thread: Any, error: Any) -> None:
        time.sleep(0.3)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, error)

    slow = mock.Mock(wraps=ctypes)
    slow.pythonapi.PyThreadState_SetAsyncExc = slowly
    monkeypatch.setattr(time_limit, "ctypes", slow)
    with pytest.raises(EventTimeoutError), at_most(0.05):
        until_late()
    time.sleep(0.4)


def test_a_block_is_not_ended_for_the_one_before_it() -> None:
    with at_most(10):
        before = time_limit._deadlines[threading.get_ident()]
    time.sleep(0.001)
    with at_most(10):
        time_limit._end(threading.get_ident(), before)
        assert time_limit._deadlines[threading.get_ident()] > before
        time.sleep(0.01)
    assert threading.get_ident() not in time_limit._deadlines


def test_a_block_that_ends_while_the_watch_looks_at_it_leaves_nothing_behind() -> None:
    def put_back() -> None:
        time_limit._deadlines[here] = deadline
        time_limit._ending.release()

    here = threading.get_ident()
    time_limit._ending.acquire()
    with at_most(10):
        deadline = time_limit._deadlines.pop(here)
        threading.Timer(0.1, put_back).start()
    assert here not in time_limit._deadlines


def test_only_the_thread_over_its_limit_is_stopped() -> None:
    def wait() -> None:
        with at_most(10):
            time.sleep(0.5)

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(wait)
        with pytest.raises(EventTimeoutError), at_most(0.1):
            loop_for_ever()
        other.result()
