from __future__ import annotations

import contextlib
import threading
import time

import pytest

from kaspr_delta.functions.time_limit import EventTimeoutError, at_most


def loop_for_ever() -> None:
    while True:
        pass


def test_what_never_ends_is_ended() -> None:
    with pytest.raises(EventTimeoutError), at_most(0.1):
        loop_for_ever()


def test_no_function_catches_it_by_accident() -> None:
    def stubborn() -> None:
        while True:
            with contextlib.suppress(Exception):
                loop_for_ever()

    with pytest.raises(EventTimeoutError), at_most(0.1):
        stubborn()


def test_what_ends_in_time_is_left_alone_and_so_is_what_follows() -> None:
    for _ in range(3):
        with at_most(0.3):
            time.sleep(0.01)
    time.sleep(0.6)


def test_its_own_exceptions_come_through() -> None:
    with pytest.raises(ZeroDivisionError), at_most(10):
        _ = 1 / 0


def test_what_ends_at_the_last_moment_either_ends_or_is_late_and_never_both() -> None:
    outcomes: list[str] = []
    for n in range(30):
        try:
            with at_most(0.15):
                end = time.monotonic() + 0.1 + n / 100
                while time.monotonic() < end:
                    pass
        except EventTimeoutError:
            outcomes.append("late")
        else:
            outcomes.append("ended")
        time.sleep(0.002)
    assert set(outcomes) == {"late", "ended"}


def test_only_the_thread_that_is_late_is_stopped() -> None:
    other = threading.Event()

    def wait() -> None:
        with at_most(10):
            time.sleep(0.5)
        other.set()

    thread = threading.Thread(target=wait)
    thread.start()
    with pytest.raises(EventTimeoutError), at_most(0.1):
        loop_for_ever()
    thread.join()
    assert other.is_set()
