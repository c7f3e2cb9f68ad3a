"""Calling a manifest's functions by position: joins and aggregations give a value, and a key to those who ask."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from kaspr_delta.functions.call import awaited


def call_with(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call with as many of the arguments as the function asks for, the first first. Coroutines are awaited.

    A parameter with a default does not ask, unless it is called ``key``.
    """
    return awaited(function(*arguments[: asked_for(function, len(arguments))]))


@lru_cache(maxsize=1024)
def asked_for(function: Callable[..., Any], most: int) -> int:
    """How many arguments of so many a function asks for."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some that are written in C do not tell
        return 1
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return most
    by_position = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    asking = (p for p in parameters if p.kind in by_position and (p.default is p.empty or p.name == "key"))
    return min(most, sum(1 for _ in asking))
