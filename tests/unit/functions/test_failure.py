"""A function's own KeyboardInterrupt is its failure; a Ctrl-C during a function is none."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import pytest

from kaspr_delta.functions.failure import pass_on_interruption


def raised_by(cause: Callable[[], object]) -> BaseException:
    try:
        cause()
    except BaseException as error:  # noqa: BLE001  the subject of these tests
        return error
    pytest.fail("nothing was raised")


def raise_it() -> None:
    raise KeyboardInterrupt


def raise_it_again() -> None:
    try:
        raise_it()
    finally:
        ""


async def raise_it_later() -> None:
    await asyncio.sleep(0)
    raise KeyboardInterrupt


def press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


async def press_ctrl_c_later() -> None:
    await asyncio.sleep(0)
    press_ctrl_c()
    await asyncio.sleep(60)


@pytest.fixture(params=["Python's handler", "Spark's handler"])
def handler(request: pytest.FixtureRequest) -> Iterator[None]:
    def of_spark(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, signal.default_int_handler if "Python" in request.param else of_spark)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("handler")
@pytest.mark.parametrize("cause", [raise_it, raise_it_again, lambda: asyncio.run(raise_it_later())])
def test_a_keyboard_interrupt_that_a_function_raises_is_its_failure(cause: Callable[[], object]) -> None:
    pass_on_interruption(raised_by(cause))


@pytest.mark.usefixtures("handler")
@pytest.mark.parametrize("cause", [press_ctrl_c, lambda: asyncio.run(press_ctrl_c_later())])
def test_ctrl_c_during_a_function_is_raised_again(cause: Callable[[], object]) -> None:
    error = raised_by(cause)
    with pytest.raises(KeyboardInterrupt):
        pass_on_interruption(error)


@pytest.mark.parametrize("error", [SystemExit(1), GeneratorExit(), BaseException(), asyncio.CancelledError()])
def test_other_exceptions_are_failures_of_the_function(error: BaseException) -> None:
    pass_on_interruption(error)


def test_no_other_thread_is_interrupted() -> None:
    class Interrupting:
        def __iter__(self) -> Iterator[int]:
            raise KeyboardInterrupt

    def run() -> BaseException:
        error = raised_by(lambda: next(iter(Interrupting())))
        pass_on_interruption(error)
        return error

    with ThreadPoolExecutor(1) as pool:
        assert isinstance(pool.submit(run).result(), KeyboardInterrupt)
