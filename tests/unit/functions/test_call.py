from __future__ import annotations

import asyncio
import functools
import operator
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from kaspr_delta.functions.call import call, fan_out
from kaspr_delta.functions.failure import account_of_failure

TABLES = {"orders": "O", "products": "P"}
Function = Callable[..., Any]


class Counter:
    def method(self, value: Any, orders: Any) -> Any:
        return value, orders

    def __call__(self, value: Any, *, products: Any) -> Any:
        return value, products


def decorated(function: Function) -> Function:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@decorated
def wrapped(value: Any, products: Any) -> Any:
    return value, products


def _positional_only(orders: Any, /, products: Any) -> Any:
    return orders, products


def _option_behind_tables(orders: Any, limit: Any = 10) -> Any:
    return orders, limit


def _value_behind_a_table(orders: Any, value: Any, products: Any) -> Any:
    return orders, value, products


def _table_and_rest(orders: Any, *rest: Any) -> Any:
    return orders, rest


@pytest.mark.parametrize(
    ("function", "result"),
    [
        pytest.param(lambda value: value, "v", id="value only"),
        pytest.param(lambda _: _, "v", id="any name"),
        pytest.param(lambda value, orders: (value, orders), ("v", "O"), id="one table"),
        pytest.param(lambda value, products, orders: (value, products, orders), ("v", "P", "O"), id="any order"),
        pytest.param(lambda value, *, orders: (value, orders), ("v", "O"), id="keyword only"),
        pytest.param(lambda value=None: value, "v", id="optional value"),
        pytest.param(lambda value, other=7: (value, other), ("v", 7), id="unknown option"),
        pytest.param(lambda value, **tables: (value, tables), ("v", TABLES), id="**kwargs"),
        pytest.param(lambda value, orders, **rest: (value, orders, rest), ("v", "O", {"products": "P"}), id="rest"),
        pytest.param(lambda *args: args, ("v",), id="*args"),
        pytest.param(lambda *args, **tables: (args, tables), (("v",), TABLES), id="*args and **kwargs"),
        pytest.param(lambda: "nothing", "nothing", id="no parameter"),
        pytest.param(lambda *, orders: orders, "O", id="only a keyword"),
        pytest.param(lambda orders: orders, "O", id="named like a table"),
        pytest.param(_value_behind_a_table, ("O", "v", "P"), id="value behind a table"),
        pytest.param(_option_behind_tables, ("O", 10), id="option behind a table"),
        pytest.param(_table_and_rest, ("O", ("v",)), id="table and *args"),
        pytest.param(_positional_only, ("v", "P"), id="a positional-only name is no name"),
        pytest.param(wrapped, ("v", "P"), id="decorated"),
        pytest.param(functools.partial(wrapped, products="mine"), ("v", "P"), id="partial"),
        pytest.param(Counter().method, ("v", "O"), id="bound method"),
        pytest.param(Counter(), ("v", "P"), id="callable object"),
        pytest.param(str, "v", id="class without a signature"),
        pytest.param(operator.itemgetter(0), "v", id="function in C"),
    ],
)
def test_a_function_gets_the_value_and_tables_that_its_parameters_name(function: Function, result: Any) -> None:
    assert call(function, "v", TABLES) == result


def test_the_same_code_with_other_defaults_gets_other_arguments() -> None:
    def make(default: bool) -> Function:
        if default:
            return eval("lambda orders, value=1: (orders, value)")  # type: ignore[no-any-return]  # noqa: S307
        return eval("lambda orders, value: (orders, value)")  # type: ignore[no-any-return]  # noqa: S307

    assert call(make(default=False), "v", TABLES) == ("O", "v")
    assert call(make(default=True), "v", TABLES) == ("O", 1)


def test_coroutines_are_awaited() -> None:
    async def double(value: int, orders: str) -> tuple[int, str]:
        await asyncio.sleep(0)
        return value * 2, orders

    assert call(double, 2, TABLES) == (4, "O")


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
        yield value
        yield value + 1

    assert list(fan_out(call(each, 1, {}))) == [1, 2]
    assert list(fan_out(n for n in [5, None])) == [5, None]
    assert list(fan_out(n for n in range(0))) == []


def test_async_generators_fan_out() -> None:
    async def each(value: int) -> AsyncIterator[int]:
        for number in range(value):
            await asyncio.sleep(0)
            yield number

    assert list(fan_out(call(each, 3, {}))) == [0, 1, 2]


def test_an_async_generator_left_early_is_closed() -> None:
    closed: list[str] = []

    async def each() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            closed.append("closed")

    values = fan_out(each())
    assert next(values) == 1
    values.close()  # type: ignore[attr-defined]
    assert closed == ["closed"]


def test_an_account_of_a_failure_can_be_encoded_as_utf_8() -> None:
    def fail(value: str) -> None:
        raise ValueError(value)

    try:
        call(fail, "\ud800", {})
    except ValueError:
        account = account_of_failure(frames=3)
    assert "ValueError: \\ud800" in account.encode().decode()
