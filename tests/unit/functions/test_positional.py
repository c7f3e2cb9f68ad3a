from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kaspr_delta.functions.positional import call_with


class Callee:
    def __call__(self, value: Any) -> Any:
        return value


async def _later(value: Any, key: Any) -> Any:
    await asyncio.sleep(0)
    return value, key


def _keyword_only(value: Any, *, limit: int = 3) -> Any:
    return value, limit


@pytest.mark.parametrize(
    ("function", "result"),
    [
        pytest.param(lambda: "nothing", "nothing", id="none"),
        pytest.param(lambda value: value, "v", id="the value"),
        pytest.param(lambda value, key: (value, key), ("v", "k"), id="both"),
        pytest.param(lambda value, key=None: (value, key), ("v", "k"), id="a key that may be left out"),
        pytest.param(lambda *both: both, ("v", "k"), id="any number"),
        pytest.param(lambda value, *rest: (value, rest), ("v", ("k",)), id="the value and any number"),
        pytest.param(lambda value, **named: (value, named), ("v", {}), id="names"),
        pytest.param(_keyword_only, ("v", 3), id="an option by name"),
        pytest.param(_later, ("v", "k"), id="a coroutine"),
        pytest.param(Callee(), "v", id="an object"),
        pytest.param(str, "v", id="a class written in C"),
    ],
)
def test_a_function_gets_as_many_arguments_as_it_takes(function: Callable[..., Any], result: Any) -> None:
    assert call_with(function, "v", "k") == result


def test_a_missing_argument_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="missing 1 required"):
        call_with(lambda value, key, more: (value, key, more), "v", "k")
