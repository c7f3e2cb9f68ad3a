from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from kaspr_delta.errors import AlreadyRunningError
from kaspr_delta.storage.folders import LocalFolder
from kaspr_delta.storage.heartbeat import Lease, Record

SETTLE = 1.0
EVERY = 10.0


@dataclass
class ManualClock:
    """A clock that the test sets. Settling takes no real time, and leases are renewed only by the test."""

    now: float = 1_000_000
    while_settling: Callable[[], object] = lambda: None

    def pause(self, left: threading.Event, seconds: float) -> bool:
        if seconds == SETTLE:
            self.now += SETTLE
            self.while_settling()
            return left.is_set()
        return left.wait()


@pytest.fixture
def time() -> ManualClock:
    return ManualClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "locks" / "running-join-orders.json"


def lease(path: Path, time: ManualClock, ahead: float = 0) -> Lease:
    def clock() -> float:
        return time.now + ahead

    return Lease(
        LocalFolder(path.parent),
        path.name,
        "join/orders",
        "main.shop",
        every=EVERY,
        settle=SETTLE,
        clock=clock,
        pause=time.pause,
    )


def left_by_another(path: Path, *, count: int = 3, beat: float = 0) -> Record:
    """Write the record of another process."""
    record = Record(holder="another", host="worker-7", pid=4711, beat=beat, count=count)
    path.parent.mkdir(exist_ok=True)
    path.write_text(record.model_dump_json())
    return record


def renewing(held: Lease, time: ManualClock) -> Callable[[], None]:
    """A function to be called while time passes: it renews the lease whenever a renewal is due."""
    began = time.now

    def renew() -> None:
        nonlocal began
        if time.now - began >= EVERY:
            began = time.now
            held.renew()

    return renew


def record_in(path: Path) -> Record:
    return Record.model_validate_json(path.read_bytes())


@contextlib.contextmanager
def held_and_lost(path: Path, time: ManualClock) -> Iterator[Lease]:
    with (
        pytest.raises(AlreadyRunningError, match=r"join/orders may run twice on main\.shop: another took .* reach"),
        lease(path, time).held() as held,
    ):
        yield held


def test_the_lock_file_names_the_holder_and_is_the_only_file(path: Path, time: ManualClock) -> None:
    with lease(path, time).held() as held:
        for count in (1, 2):
            found = record_in(path)
            assert (found.holder, found.host, found.pid) == (held.holder, socket.gethostname(), os.getpid())
            assert found.count == count
            assert list(path.parent.iterdir()) == [path]
            held.renew()
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(("ahead", "wall"), [(0, None), (60, None), (-60, None), (3_600, None), (0, 1e9), (0, 0.0)])
def test_a_second_holder_is_refused_at_any_difference_of_clocks(
    path: Path, time: ManualClock, ahead: float, wall: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the wall clock is set back, or stops."""
    with lease(path, time).held() as held:
        time.now += 4
        time.while_settling = renewing(held, time)
        if wall is not None:
            monkeypatch.setattr("kaspr_delta.storage.heartbeat.time", SimpleNamespace(time=lambda: wall))
        for _ in range(2):
            with pytest.raises(AlreadyRunningError) as refused, lease(path, time, ahead).held():
                pytest.fail("two hold it")
        holder = f"process {os.getpid()} on host {socket.gethostname()}"
        assert str(refused.value) == (
            f"join/orders already runs on main.shop: {holder} keeps renewing {path}. Stop that one first; if it dies,"
            " the resource is free 30 seconds later"
        )
        assert record_in(path).holder == held.holder
        assert not held.lost.is_set()


def test_an_error_in_the_block_is_raised_and_releases_the_lease(path: Path, time: ManualClock) -> None:
    holder = lease(path, time)
    holder.lost.set()
    with pytest.raises(ZeroDivisionError), holder.held():
        raise ZeroDivisionError
    assert not path.exists()


@pytest.mark.parametrize("beat", [0, 999_971, 1_000_000, 1_000_060])
def test_a_lease_without_renewal_is_taken_over_after_thirty_seconds(path: Path, time: ManualClock, beat: float) -> None:
    record, began = left_by_another(path, beat=beat), time.now

    def still_there() -> None:
        assert record_in(path) == record or time.now - began > 30

    time.while_settling = still_there
    with lease(path, time).held() as held:
        assert record_in(path).holder == held.holder
        assert 30 <= time.now - began <= 32
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    "garbage",
    [b"", b"{", b"[]", b'{"holder": "a"}', b"\xff\xfe", b'{"holder":"a","host":"w","pid":1,"beat":Infinity,"count":3}'],
)
def test_an_unreadable_lock_file_is_taken_over(path: Path, time: ManualClock, garbage: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(garbage)
    with lease(path, time).held() as held:
        assert record_in(path).holder == held.holder


def test_of_two_simultaneous_starts_the_first_to_write_is_refused(path: Path, time: ManualClock) -> None:
    time.while_settling = lambda: left_by_another(path, count=int(time.now))
    with pytest.raises(AlreadyRunningError, match=r"already runs on main\.shop: process 4711 on host worker-7"):
        lease(path, time).held().__enter__()
    assert record_in(path).holder == "another"


def test_a_lock_file_that_vanishes_while_settling_is_written_again(path: Path, time: ManualClock) -> None:
    def vanish() -> None:
        path.unlink()
        time.while_settling = lambda: None

    time.while_settling = vanish
    with lease(path, time).held() as held:
        assert record_in(path).holder == held.holder


def test_an_interrupt_while_settling_leaves_no_lock_file(path: Path, time: ManualClock) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    time.while_settling = interrupt
    with pytest.raises(KeyboardInterrupt):
        lease(path, time).held().__enter__()
    assert list(path.parent.iterdir()) == []


def test_a_holder_renews_its_lease_until_it_leaves(path: Path, time: ManualClock) -> None:
    pauses, ended = threading.Semaphore(0), threading.Semaphore(0)

    def pause(left: threading.Event, seconds: float) -> bool:
        if seconds == EVERY:
            pauses.release()
            while not ended.acquire(timeout=0.01):
                if left.is_set():
                    return True
        return False

    holder = lease(path, time)
    holder.pause = pause
    with holder.held():
        pauses.acquire()
        for count in (2, 3, 4):
            time.now += EVERY
            ended.release()
            pauses.acquire()
            assert record_in(path).count == count
    assert not any(thread.name == "heartbeat join/orders" for thread in threading.enumerate())
    assert not path.exists()


@pytest.mark.parametrize(("beat_at", "renewed"), [(0, True), (1e12, True), (0, False)])
def test_a_lost_lease_is_noticed_at_the_next_beat_or_at_the_end(
    path: Path, time: ManualClock, beat_at: float, renewed: bool
) -> None:
    with held_and_lost(path, time) as held:
        record = left_by_another(path, beat=beat_at)
        if renewed:
            held.renew()
        assert held.lost.is_set() is renewed
    assert record_in(path) == record


def test_a_holder_that_slept_does_not_know_whether_another_came_until_it_renews_its_lease(
    path: Path, time: ManualClock
) -> None:
    with lease(path, time).held() as held:
        time.now += 29 - SETTLE
        assert not held.is_lost()
        time.now += 1 + SETTLE
        assert held.is_lost()
        held.renew()
        assert not held.is_lost()
    with held_and_lost(path, time) as held:
        left_by_another(path)
        held.renew()
        assert held.is_lost()


@pytest.mark.parametrize(("removed", "slept"), [(False, 3_600), (True, EVERY)])
def test_a_holder_keeps_a_lease_that_was_not_taken(path: Path, time: ManualClock, removed: bool, slept: float) -> None:
    with lease(path, time).held() as held:
        if removed:
            path.unlink()
        time.now += slept
        held.renew()
        assert (record_in(path).holder, record_in(path).count) == (held.holder, 2)


def test_a_holder_that_slept_loses_its_lease_if_the_file_is_gone(path: Path, time: ManualClock) -> None:
    with held_and_lost(path, time) as held:
        path.unlink()
        time.now += 30
        held.renew()
        assert held.lost.is_set()


def test_failing_storage_is_tolerated_until_the_last_beat_is_old(
    path: Path, time: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError

    with held_and_lost(path, time) as held:
        with monkeypatch.context() as storage:
            storage.setattr(Path, "replace", fail)
            time.now += 29 - SETTLE
            held.renew()
            assert not held.lost.is_set()
            assert list(path.parent.iterdir()) == [path]
        renewed = record_in(path).count
        held.renew()
        assert record_in(path).count > renewed

        with monkeypatch.context() as storage:
            storage.setattr(Path, "read_bytes", fail)
            time.now += 29
            held.renew()
            assert not held.lost.is_set()
            time.now += 1
            held.renew()
            assert held.lost.is_set()
    assert not path.exists()


def test_failing_storage_at_the_start_is_an_error(path: Path, time: ManualClock) -> None:
    path.mkdir(parents=True)
    with pytest.raises(OSError, match=path.name):
        lease(path, time).held().__enter__()
