"""Call a manifest's functions by position: joins and aggregations pass a value, and a key if a function asks for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from kaspr_delta.functions.call import awaited


def call_with(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call with the first arguments, as many as the function asks for. Coroutines are awaited.

    A parameter with a default does not ask for an argument, unless it is called ``key``.
    """
    return awaited(function(*arguments[: asked_for(function, len(arguments))]))


@lru_cache(maxsize=1024)
def asked_for(function: Callable[..., Any], most: int) -> int:
    """The number of arguments that a function asks for, at most ``most``."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some functions written in C have no signature
        return 1
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return most
    by_position = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    asking = (p for p in parameters if p.kind in by_position and (p.default is p.empty or p.name == "key"))
    return min(most, sum(1 for _ in asking))
