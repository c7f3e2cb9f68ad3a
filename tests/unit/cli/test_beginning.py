"""A run that a platform starts again when it ends, and that cannot begin."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import time_machine

from kaspr_delta.cli.beginning import begun
from kaspr_delta.cli.interruption import Stop
from kaspr_delta.errors import SetupError
from kaspr_delta.storage.folders import LocalFolder
from kaspr_delta.storage.settled import Settled

NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


class Application:
    """The answer of a beginning that goes well after some errors."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    def __call__(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "begun"


@contextlib.contextmanager
def at_work(_: Stop) -> Iterator[None]:
    yield


@contextlib.contextmanager
def stopped(stop: Stop) -> Iterator[None]:
    stop.asked.set()
    yield


@pytest.fixture
def begins(tmp_path: Path) -> Callable[..., str | None]:
    """A function that begins the run of some resources, after errors."""

    def begin(
        *errors: Exception, only: tuple[str, ...] = (), until: object = at_work, revision: str = "a"
    ) -> str | None:
        settled = Settled(LocalFolder(tmp_path))
        return begun(Application(*errors), settled, revision, only, until, pause=0.0)  # type: ignore[arg-type]

    return begin


NEWER = SetupError("the state has a newer format\nuse that version")


def test_it_fails_once_and_then_tries_again_by_itself(begins: Callable[..., str | None]) -> None:
    with pytest.raises(SetupError, match="newer"):
        begins(NEWER)
    assert begins(NEWER, NEWER) == "begun"
    with pytest.raises(SetupError, match="newer"):
        begins(NEWER)
    with pytest.raises(SetupError, match="newer"):
        begins(NEWER, revision="b")


def test_it_fails_anew_by_another_error_for_other_resources_and_the_next_day(begins: Callable[..., str | None]) -> None:
    with time_machine.travel(NOON) as clock:
        for error in (NEWER, SetupError("no SELECT")):
            with pytest.raises(SetupError, match=str(error)):
                begins(error)
        with pytest.raises(SetupError, match="no SELECT"):
            begins(SetupError("no SELECT"), only=("join/priced",))
        clock.move_to(NOON + timedelta(hours=23))
        with pytest.raises(SetupError, match="newer"):
            begins(SetupError("no SELECT"), NEWER)
        clock.move_to(NOON + timedelta(hours=48))
        with pytest.raises(SetupError, match="newer"):
            begins(NEWER)


def test_what_may_pass_is_left_to_the_platform(begins: Callable[..., str | None]) -> None:
    for _ in range(2):
        with pytest.raises(OSError, match="connection"):
            begins(OSError("the connection was lost"))


def test_a_deployment_ends_it(begins: Callable[..., str | None]) -> None:
    with pytest.raises(SetupError):
        begins(NEWER)
    assert begins(NEWER, until=stopped) is None


def test_where_nothing_can_be_noted_it_fails_each_time(tmp_path: Path) -> None:
    nowhere = Settled(LocalFolder(tmp_path / "no" / "volume"))
    for _ in range(2):
        with pytest.raises(SetupError):
            begun(Application(NEWER), nowhere, "", [], at_work)
