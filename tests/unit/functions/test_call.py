from __future__ import annotations

import asyncio
import functools
import operator
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from kaspr_delta.functions.call import call, call_with, fan_out
from kaspr_delta.functions.failure import account_of_failure

TABLES = {"orders": "O", "products": "P"}
Function = Callable[..., Any]


class Counter:
    def method(self, value: Any, orders: Any) -> Any:
        return value, orders

    def __call__(self, value: Any, *, products: Any = None) -> Any:
        return value, products


def decorated(function: Function) -> Function:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@decorated
def wrapped(value: Any, products: Any) -> Any:
    return value, products


async def later(value: Any, key: Any) -> Any:
    await asyncio.sleep(0)
    return value, key


def lambda_of(parameters: str) -> Function:
    """A function that returns its parameters, as a tuple."""
    names = [name.strip(" */").partition("=")[0] for name in parameters.split(",")]
    return eval(f"lambda {parameters}: ({''.join(f'{name},' for name in names if name)})")  # type: ignore[no-any-return]  # noqa: S307


@pytest.mark.parametrize(
    ("parameters", "result"),
    [
        ("value", ("v",)),
        ("_", ("v",)),
        ("value, orders", ("v", "O")),
        ("value, products, orders", ("v", "P", "O")),
        ("value, *, orders", ("v", "O")),
        ("value=None", ("v",)),
        ("value, other=7", ("v", 7)),
        ("value, **tables", ("v", TABLES)),
        ("value, orders, **rest", ("v", "O", {"products": "P"})),
        ("*args", (("v",),)),
        ("*args, **tables", (("v",), TABLES)),
        ("", ()),
        ("*, orders", ("O",)),
        ("orders", ("O",)),
        ("orders, value, products", ("O", "v", "P")),
        ("orders, limit=10", ("O", 10)),
        ("orders, *rest", ("O", ("v",))),
        ("orders, /, products", ("v", "P")),
        (wrapped, ("v", "P")),
        (functools.partial(wrapped, products="mine"), ("v", "P")),
        (Counter().method, ("v", "O")),
        (Counter(), ("v", "P")),
        (str, "v"),  # a class without a signature
        (operator.itemgetter(0), "v"),
    ],
)
def test_a_function_gets_the_value_and_tables_that_its_parameters_name(parameters: str | Function, result: Any) -> None:
    function = lambda_of(parameters) if isinstance(parameters, str) else parameters
    assert call(function, "v", TABLES) == result


def test_the_same_code_with_other_defaults_gets_other_arguments() -> None:
    with_default, without = lambda_of("orders, value=1"), lambda_of("orders, value")
    assert (call(without, "v", TABLES), call(with_default, "v", TABLES)) == (("O", "v"), ("O", 1))


@pytest.mark.parametrize(
    ("parameters", "result"),
    [
        ("", ()),
        ("value", ("v",)),
        ("value, key", ("v", "k")),
        ("value, key=None", ("v", "k")),
        ("*both", (("v", "k"),)),
        ("value, *rest", ("v", ("k",))),
        ("value, **named", ("v", {})),
        ("value, *, limit=3", ("v", 3)),
        (later, ("v", "k")),
        (Counter(), ("v", None)),
        (str, "v"),
    ],
)
def test_a_function_that_is_called_by_position_gets_as_many_arguments_as_it_takes(
    parameters: str | Function, result: Any
) -> None:
    function = lambda_of(parameters) if isinstance(parameters, str) else parameters
    assert call_with(function, "v", "k") == result


def test_a_missing_argument_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="missing 1 required"):
        call_with(lambda_of("value, key, more"), "v", "k")


def test_coroutines_are_awaited() -> None:
    assert call(later, 2, {"key": "k"}) == (2, "k")


def test_an_error_of_a_coroutine_is_raised() -> None:
    async def fail(_: Any) -> None:
        await asyncio.sleep(0)
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        call(fail, 1, {})


@pytest.mark.parametrize("result", [[1, 2], (1, 2), {"a": 1}, "ab", None, 0, iter([1]), map(str, [1])])
def test_any_result_except_a_generator_is_one_value(result: Any) -> None:
    assert list(fan_out(result)) == [result]


def test_generators_fan_out() -> None:
    def each(value: int) -> Iterator[int]:
        yield from range(value)

    async def each_later(value: int) -> AsyncIterator[int]:
        for number in range(value):
            await asyncio.sleep(0)
            yield number

    assert list(fan_out(call(each, 3, {}))) == list(fan_out(call(each_later, 3, {}))) == [0, 1, 2]
    assert list(fan_out(n for n in [5, None])) == [5, None]
    assert list(fan_out(call(each, 0, {}))) == []


def test_an_async_generator_left_early_is_closed() -> None:
    closed: list[str] = []

    async def each() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            closed.append("closed")

    values: Any = fan_out(each())
    assert next(values) == 1
    values.close()
    assert closed == ["closed"]


def test_an_account_of_a_failure_can_be_encoded_as_utf_8() -> None:
    def fail(value: str) -> None:
        raise ValueError(value)

    try:
        call(fail, "\ud800", {})
    except ValueError as error:
        account = account_of_failure(error, frames=3)
    assert "ValueError: \\ud800" in account.encode().decode()
