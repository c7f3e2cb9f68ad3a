"""Call a manifest's functions by signature: a function gets the offered arguments that it accepts."""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from types import AsyncGeneratorType, CodeType, GeneratorType
from typing import Any, NamedTuple

from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.functions.syntax import tree_of

PLAIN = frozenset({dict, list, tuple, str, bytes, int, float, bool, type(None)})
"""The usual types of results: not awaitable, and no generator."""


def call(function: Callable[..., Any], value: Any, offered: Mapping[str, Any]) -> Any:
    """Call a function with the value and the offered arguments that it accepts.

    The value goes to the first positional parameter that does not have the name of an offered argument. Parameters in
    front of it get the offered arguments of their names. A function without a parameter for the value is called without
    it. Coroutines are awaited.
    """
    return awaited(bind(function, offered)(value))


def bind(function: Callable[..., Any], offered: Mapping[str, Any]) -> Callable[[Any], Any]:
    """The function with its offered arguments bound: it takes the value. Its result may have to be awaited."""
    first, takes_value, keywords = _plan_of(function, tuple(offered))
    positional = [offered[name] for name in first]
    named = {name: offered[name] for name in keywords}
    if not takes_value:
        return lambda _: function(*positional, **named)
    return partial(function, *positional, **named) if positional or named else function


def awaited(result: Any) -> Any:
    """The result of a function, or, if it is awaitable, the result of awaiting it."""
    if type(result) in PLAIN:
        return result
    return asyncio.run(_await(result)) if inspect.isawaitable(result) else result


GENERATORS = frozenset({GeneratorType, AsyncGeneratorType})
"""The types of results that stand for several values."""


def fan_out(result: Any) -> Iterator[Any]:
    """The values of a ``map`` result: each value of a generator; any other result is one value."""
    if isinstance(result, GeneratorType):
        yield from result
    elif isinstance(result, AsyncGeneratorType):
        yield from _drained(result)
    else:
        yield result


def _drained(generator: AsyncGeneratorType[Any, None]) -> Iterator[Any]:
    """The values of an asynchronous generator, one at a time, on an event loop of its own."""
    loop = asyncio.new_event_loop()
    try:
        while True:
            try:
                yield loop.run_until_complete(anext(generator))
            except StopAsyncIteration:
                return
    finally:
        try:
            loop.run_until_complete(generator.aclose())
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


async def _await(awaitable: Any) -> Any:
    return await awaitable


def unfilled(snippet: Snippet, offered: tuple[str, ...]) -> tuple[str, ...]:
    """The parameters of an entry point that neither the value nor an offered argument fills: every call fails.

    Only a function that the source defines, without decorators, is known.
    """
    for node in tree_of(snippet.source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == snippet.entrypoint:
            return () if node.decorator_list else _unfilled(node.args, offered)
    return ()


def _unfilled(arguments: ast.arguments, offered: tuple[str, ...]) -> tuple[str, ...]:
    positional = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    optional = len(arguments.defaults)
    plan = _planned(
        positional,
        len(arguments.posonlyargs),
        optional,
        {one.arg for one in arguments.kwonlyargs},
        any_positional=arguments.vararg is not None,
        any_keyword=arguments.kwarg is not None,
        offered=offered,
    )
    by_position = positional[: len(plan.first) + plan.takes_value]
    required = positional[: len(positional) - optional] + [
        one.arg for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None
    ]
    return tuple(name for name in required if name not in by_position and name not in plan.keywords)


class _Plan(NamedTuple):
    """How a function is called: offered names in front of the value, the value or not, offered names as keywords."""

    first: tuple[str, ...]
    takes_value: bool
    keywords: tuple[str, ...]


def _plan_of(function: Callable[..., Any], offered: tuple[str, ...]) -> _Plan:
    if inspect.isfunction(function) and not hasattr(function, "__wrapped__"):
        # The source may be executed anew for every value, but its code object stays: plans are cached by it.
        return _plan_of_code(function.__code__, len(function.__defaults__ or ()), offered)
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some functions written in C have no signature
        return _Plan((), takes_value=True, keywords=())
    kinds = {parameter.kind for parameter in parameters}
    return _planned(
        [p.name for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}],
        sum(p.kind == p.POSITIONAL_ONLY for p in parameters),
        sum(p.default is not p.empty and p.kind is not p.KEYWORD_ONLY for p in parameters),
        {p.name for p in parameters if p.kind == p.KEYWORD_ONLY},
        any_positional=inspect.Parameter.VAR_POSITIONAL in kinds,
        any_keyword=inspect.Parameter.VAR_KEYWORD in kinds,
        offered=offered,
    )


@lru_cache(maxsize=4096)
def _plan_of_code(code: CodeType, defaults: int, offered: tuple[str, ...]) -> _Plan:
    names = code.co_varnames
    return _planned(
        list(names[: code.co_argcount]),
        code.co_posonlyargcount,
        defaults,
        set(names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]),
        any_positional=bool(code.co_flags & inspect.CO_VARARGS),
        any_keyword=bool(code.co_flags & inspect.CO_VARKEYWORDS),
        offered=offered,
    )


def _planned(  # noqa: PLR0913  a signature has that many parts
    positional: list[str],
    without_name: int,
    defaults: int,
    keyword_only: set[str],
    *,
    any_positional: bool,
    any_keyword: bool,
    offered: tuple[str, ...],
) -> _Plan:
    """The plan for a signature: the first ``without_name`` are positional only, the last ``defaults`` are optional."""
    first_free = next((i for i, name in enumerate(positional) if i < without_name or name not in offered), None)
    if first_free is None:  # all have offered names: only *args takes the value
        first, takes_value = (tuple(positional) if any_positional else ()), any_positional
    elif first_free == 0 or first_free < len(positional) - defaults:
        first, takes_value = tuple(positional[:first_free]), True
    else:  # the only parameter for the value is an optional parameter behind the offered ones
        first, takes_value = (), False
    by_name = {*positional[without_name:], *keyword_only} - set(first)
    keywords = tuple(name for name in offered if name in by_name or (any_keyword and name not in first))
    return _Plan(first, takes_value, keywords)
