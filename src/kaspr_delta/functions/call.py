"""Call a manifest's functions: agents and views by signature, with arguments that are offered; joins by position."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from types import AsyncGeneratorType, CellType, CodeType, FunctionType, GeneratorType
from typing import Any, NamedTuple

from kaspr_delta.functions.snippet import Snippet

PLAIN = frozenset({dict, list, tuple, str, bytes, int, float, bool, type(None)})
"""The usual types of results: not awaitable, and no generator."""
_BY_POSITION = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
_BY_NAME = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}


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
    if not inspect.isawaitable(result):
        return result
    import asyncio  # few functions need it, and quick commands start without it

    return asyncio.run(_await(result))


def fan_out(result: Any) -> Iterable[Any]:
    """The values of a ``map`` result: each value of a generator; any other result is one value."""
    if isinstance(result, AsyncGeneratorType):
        return _drained(result)
    return result if isinstance(result, GeneratorType) else (result,)


def _drained(generator: AsyncGeneratorType[Any, None]) -> Iterator[Any]:
    """The values of an asynchronous generator, one at a time, on an event loop of its own."""
    import asyncio

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
    """The parameters of an entry point that neither the value nor an offered argument fills: every call fails."""
    signature = _signature(snippet)
    return () if signature is None else _unfilled(signature, offered)


def may_get(snippet: Snippet, name: str) -> bool:
    """Whether an entry point may get an offered argument of this name."""
    signature = _signature(snippet)
    if signature is None:
        return True
    plan = _planned(signature, (name,))
    return name in plan.first or name in plan.keywords


def _signature(snippet: Snippet) -> inspect.Signature | None:
    """The signature of the entry point, if the source defines it without decorators."""
    for node in snippet.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == snippet.entrypoint:
            return None if node.decorator_list else _signature_of(node.args)
    return None


def _unfilled(signature: inspect.Signature, offered: tuple[str, ...]) -> tuple[str, ...]:
    plan, parameters = _planned(signature, offered), signature.parameters.values()
    by_position = [one.name for one in parameters if one.kind in _BY_POSITION][: len(plan.first) + plan.takes_value]
    required = (one.name for one in parameters if one.default is one.empty and one.kind in _BY_POSITION | _BY_NAME)
    return tuple(name for name in required if name not in by_position and name not in plan.keywords)


def _signature_of(arguments: ast.arguments) -> inspect.Signature:
    """The signature of a function that is not executed: each default is None."""
    none = ast.Constant(None)
    arguments.defaults = [none for _ in arguments.defaults]
    arguments.kw_defaults = [default and none for default in arguments.kw_defaults]
    function = ast.fix_missing_locations(ast.Expression(ast.Lambda(arguments, none)))
    return inspect.signature(eval(compile(function, "<parameters>", "eval")))  # noqa: S307  runs nothing of the author


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
        return _planned(inspect.signature(function), offered)
    except ValueError:  # some functions written in C have no signature
        return _Plan((), takes_value=True, keywords=())


@lru_cache(maxsize=4096)
def _plan_of_code(code: CodeType, defaults: int, offered: tuple[str, ...]) -> _Plan:
    cells = tuple(CellType() for _ in code.co_freevars)
    return _planned(inspect.signature(FunctionType(code, {}, None, (None,) * defaults, cells)), offered)


def _planned(signature: inspect.Signature, offered: tuple[str, ...]) -> _Plan:
    parameters = signature.parameters.values()
    kinds = {one.kind for one in parameters}
    positional = [one for one in parameters if one.kind in _BY_POSITION]
    free = (i for i, one in enumerate(positional) if one.name not in offered or one.kind not in _BY_NAME)
    first_free = next(free, None)
    if first_free is None:  # all have offered names: only *args takes the value
        takes_value = inspect.Parameter.VAR_POSITIONAL in kinds
        before = positional if takes_value else []
    elif first_free == 0 or positional[first_free].default is inspect.Parameter.empty:
        takes_value, before = True, positional[:first_free]
    else:  # the only parameter for the value is an optional parameter behind the offered ones
        takes_value, before = False, []
    first = tuple(one.name for one in before)
    by_name = {one.name for one in parameters if one.kind in _BY_NAME}
    any_name = inspect.Parameter.VAR_KEYWORD in kinds
    keywords = tuple(name for name in offered if (any_name or name in by_name) and name not in first)
    return _Plan(first, takes_value, keywords)


def call_with(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call with the first arguments, as many as the function asks for. Coroutines are awaited.

    Joins and aggregations pass a value and a key. A parameter with a default does not ask for an argument, unless it is
    called ``key``.
    """
    return awaited(function(*arguments[: asked_for(function, len(arguments))]))


@lru_cache(maxsize=1024)
def asked_for(function: Callable[..., Any], most: int) -> int:
    """The number of arguments that a function asks for, at most ``most``."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some functions written in C have no signature
        return 1
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return most
    return min(
        most, sum(one.kind in _BY_POSITION and (one.default is one.empty or one.name == "key") for one in parameters)
    )
