"""Calling a manifest's functions by signature: each gets, of what is offered, what it can take."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import lru_cache
from types import AsyncGeneratorType, CodeType, GeneratorType
from typing import Any


def call(function: Callable[..., Any], value: Any, offered: Mapping[str, Any]) -> Any:
    """Call with the value in first place and those keyword arguments that the function accepts.

    A function without a positional parameter is called without the value. Coroutines are awaited.
    """
    takes_value, names = _accepts(function, tuple(offered))
    keywords = {name: offered[name] for name in names}
    result = function(value, **keywords) if takes_value else function(**keywords)
    return asyncio.run(_await(result)) if inspect.isawaitable(result) else result


def fan_out(result: Any) -> Iterator[Any]:
    """The values that a ``map`` result stands for: generators give each of theirs, anything else is one value."""
    if isinstance(result, GeneratorType):
        yield from result
    elif isinstance(result, AsyncGeneratorType):
        yield from _drained(result)
    else:
        yield result


def _drained(generator: AsyncIterator[Any]) -> Iterator[Any]:
    """Values of an asynchronous generator, one at a time, on an event loop of its own."""
    loop = asyncio.new_event_loop()
    try:
        while True:
            try:
                yield loop.run_until_complete(anext(generator))
            except StopAsyncIteration:
                return
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _await(awaitable: Any) -> Any:
    return await awaitable


def _accepts(function: Callable[..., Any], offered: tuple[str, ...]) -> tuple[bool, tuple[str, ...]]:
    if inspect.isfunction(function) and not hasattr(function, "__wrapped__"):
        # Operations are executed anew for every value, but their code object stays: it is what the answer depends on.
        return _signature_of_code(function.__code__, offered)
    return _from_parameters(tuple(inspect.signature(function).parameters.values()), offered)


@lru_cache(maxsize=4096)
def _signature_of_code(code: CodeType, offered: tuple[str, ...]) -> tuple[bool, tuple[str, ...]]:
    positional = code.co_varnames[: code.co_argcount]
    keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    takes_any_keyword = bool(code.co_flags & inspect.CO_VARKEYWORDS)
    takes_value = bool(code.co_flags & inspect.CO_VARARGS) or any(name not in offered for name in positional[:1])
    known = {*positional, *keyword_only}
    return takes_value, tuple(name for name in offered if takes_any_keyword or name in known)


def _from_parameters(
    parameters: tuple[inspect.Parameter, ...], offered: tuple[str, ...]
) -> tuple[bool, tuple[str, ...]]:
    kinds = {parameter.kind for parameter in parameters}
    positional = [p.name for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    known = {p.name for p in parameters if p.kind in {p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY}}
    takes_value = inspect.Parameter.VAR_POSITIONAL in kinds or any(name not in offered for name in positional[:1])
    return takes_value, tuple(n for n in offered if inspect.Parameter.VAR_KEYWORD in kinds or n in known)
