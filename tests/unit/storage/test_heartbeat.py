from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kaspr_delta.errors import AlreadyRunningError
from kaspr_delta.storage.heartbeat import Lease, Record

SETTLE = 1.0
EVERY = 10.0


@dataclass
class Time:
    """A clock that is set by hand. To settle takes no real time, and nobody beats on its own."""

    now: float = 1_000_000
    while_settling: Callable[[], object] = lambda: None

    def pause(self, left: threading.Event, seconds: float) -> bool:
        if seconds == SETTLE:
            self.while_settling()
            return left.is_set()
        return left.wait()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "locks" / "running-join-orders.json"


def lease(path: Path, time: Time) -> Lease:
    return Lease(path, "join/orders", "main.shop", every=EVERY, settle=SETTLE, clock=lambda: time.now, pause=time.pause)


def left_by_another(path: Path, beat: float) -> Record:
    """The file of a process that does not beat any more."""
    record = Record(holder="another", host="worker-7", pid=4711, beat=beat)
    path.parent.mkdir(exist_ok=True)
    path.write_text(record.model_dump_json())
    return record


def record_in(path: Path) -> Record:
    return Record.model_validate_json(path.read_bytes())


def beat(held: Lease) -> None:
    held._if_mine(held._write)


@contextlib.contextmanager
def held_and_lost(path: Path, time: Time) -> Iterator[Lease]:
    with (
        pytest.raises(AlreadyRunningError, match=r"join/orders may run twice on main\.shop: another took .* reach"),
        lease(path, time).held() as held,
    ):
        yield held


def test_the_file_tells_who_runs_and_is_the_only_one(path: Path, time: Time) -> None:
    with lease(path, time).held() as held:
        assert record_in(path) == Record(holder=held.holder, host=socket.gethostname(), pid=os.getpid(), beat=time.now)
        beat(held)
        assert list(path.parent.iterdir()) == [path]
    assert list(path.parent.iterdir()) == []


def test_a_second_holder_is_refused_and_told_who_holds_it(path: Path, time: Time) -> None:
    with lease(path, time).held() as held:
        time.now += 4
        with pytest.raises(AlreadyRunningError) as refused, lease(path, time).held():
            pytest.fail("two hold it")
        assert str(refused.value) == (
            f"join/orders already runs on main.shop: process {os.getpid()} on host {socket.gethostname()} was seen "
            "4 seconds ago. Stop that one first; if it died, the resource is free 30 seconds after that"
        )
        assert record_in(path).holder == held.holder


def test_release_frees_at_once(path: Path, time: Time) -> None:
    with lease(path, time).held():
        pass
    with lease(path, time).held() as held:
        assert record_in(path).holder == held.holder


def test_an_error_of_the_block_releases_and_is_the_one_raised(path: Path, time: Time) -> None:
    holder = lease(path, time)
    holder.lost.set()
    with pytest.raises(ZeroDivisionError), holder.held():
        raise ZeroDivisionError
    assert not path.exists()


@pytest.mark.parametrize("age", [-5, 0, 29.9])
def test_what_a_crashed_holder_left_is_respected_for_thirty_seconds(path: Path, time: Time, age: float) -> None:
    record = left_by_another(path, time.now - age)
    with pytest.raises(AlreadyRunningError, match=rf"process 4711 on host worker-7 was seen {max(0, age):.0f} seconds"):
        lease(path, time).held().__enter__()
    assert record_in(path) == record


def test_what_a_crashed_holder_left_is_taken_over_after_thirty_seconds(path: Path, time: Time) -> None:
    left_by_another(path, time.now - 30)
    with lease(path, time).held() as held:
        assert record_in(path).holder == held.holder
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("garbage", [b"", b"{", b"[]", b'{"holder": "another"}', b"\xff\xfe", b'"beat"'])
def test_a_file_that_tells_nothing_is_taken_over(path: Path, time: Time, garbage: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(garbage)
    with lease(path, time).held() as held:
        assert record_in(path).holder == held.holder


def test_a_beat_without_end_is_no_beat(path: Path, time: Time) -> None:
    left_by_another(path, 0)
    path.write_text(path.read_text().replace("0.0", "Infinity"))
    with lease(path, time).held():
        pass


def test_of_two_that_start_at_once_the_last_to_write_wins_and_the_other_refuses(path: Path, time: Time) -> None:
    time.while_settling = lambda: left_by_another(path, time.now)
    with pytest.raises(AlreadyRunningError, match=r"already runs on main\.shop: process 4711 on host worker-7"):
        lease(path, time).held().__enter__()
    assert record_in(path).holder == "another"


def test_a_file_that_vanishes_while_it_settles_is_written_again(path: Path, time: Time) -> None:
    def vanish() -> None:
        path.unlink()
        time.while_settling = lambda: None

    time.while_settling = vanish
    with lease(path, time).held() as held:
        assert record_in(path).holder == held.holder


def test_an_interrupt_while_it_settles_leaves_no_file(path: Path, time: Time) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    time.while_settling = interrupt
    with pytest.raises(KeyboardInterrupt):
        lease(path, time).held().__enter__()
    assert list(path.parent.iterdir()) == []


def test_a_beat_keeps_others_away_for_another_thirty_seconds(path: Path, time: Time) -> None:
    with lease(path, time).held() as held:
        for _ in range(10):
            time.now += EVERY
            beat(held)
        time.now += 29
        with pytest.raises(AlreadyRunningError, match="seen 29 seconds ago"):
            lease(path, time).held().__enter__()
        assert not held.lost.is_set()


def test_the_holder_beats_by_itself_until_it_leaves(path: Path, time: Time) -> None:
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
        for _ in range(3):
            time.now += EVERY
            ended.release()
            pauses.acquire()
            assert record_in(path).beat == time.now
    assert not any(thread.name == "heartbeat join/orders" for thread in threading.enumerate())
    assert not path.exists()


@pytest.mark.parametrize("age", [0, 100])
def test_a_holder_whose_place_was_taken_notices_at_its_next_beat(path: Path, time: Time, age: float) -> None:
    with held_and_lost(path, time) as held:
        record = left_by_another(path, time.now - age)
        assert not held.lost.is_set()
        beat(held)
        assert held.lost.is_set()
    assert record_in(path) == record


def test_a_holder_whose_place_was_taken_notices_at_the_end_without_a_beat(path: Path, time: Time) -> None:
    with held_and_lost(path, time):
        left_by_another(path, time.now)


def test_a_holder_that_slept_goes_on_when_nobody_came(path: Path, time: Time) -> None:
    with lease(path, time).held() as held:
        time.now += 3_600
        beat(held)
        assert record_in(path).beat == time.now


def test_a_file_that_somebody_removed_is_written_again(path: Path, time: Time) -> None:
    with lease(path, time).held() as held:
        path.unlink()
        time.now += EVERY
        beat(held)
        assert record_in(path).holder == held.holder


def test_a_holder_that_slept_and_finds_no_file_knows_that_another_may_have_come_and_gone(
    path: Path, time: Time
) -> None:
    with held_and_lost(path, time) as held:
        path.unlink()
        time.now += 30
        beat(held)
        assert held.lost.is_set()


def test_storage_that_fails_is_tolerated_until_the_last_beat_is_old(
    path: Path, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError

    with held_and_lost(path, time) as held:
        with monkeypatch.context() as storage:
            storage.setattr(Path, "replace", fail)
            time.now += 29
            beat(held)
            assert not held.lost.is_set()
            assert list(path.parent.iterdir()) == [path]
        beat(held)
        assert record_in(path).beat == time.now

        with monkeypatch.context() as storage:
            storage.setattr(Path, "read_bytes", fail)
            time.now += 29
            beat(held)
            assert not held.lost.is_set()
            time.now += 1
            beat(held)
            assert held.lost.is_set()
    assert not path.exists()


def test_storage_that_fails_at_the_start_is_an_error(path: Path, time: Time) -> None:
    path.mkdir(parents=True)
    with pytest.raises(OSError, match=path.name):
        lease(path, time).held().__enter__()
