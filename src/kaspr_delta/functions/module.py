"""The modules of snippets: Python's libraries look up the names of a class or function in ``sys.modules``.

Pickle, dataclasses and ``typing.get_type_hints`` do. A source may be executed for each event, and in several threads:
the module has the names of the execution that is current in the thread.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any, cast

Scope = dict[str, Any]

# Each edited snippet has a module of its own; the oldest ones are forgotten.
_MOST_MODULES = 4096
_names: dict[str, None] = {}
_changing = threading.Lock()


class SnippetModule(ModuleType):
    """A module whose names are those of the current scope."""

    __slots__ = ("_execute", "_last", "_of_thread")

    def __init__(self, name: str, execute: Callable[[], Scope]) -> None:
        super().__init__(name)
        self._execute = execute
        self._last: Scope | None = None
        self._of_thread = threading.local()

    def enter(self, scope: Scope) -> None:
        self._last = self._of_thread.scope = scope

    @property
    def __dict__(self) -> Scope:  # type: ignore[override]
        scope: Scope | None = getattr(self._of_thread, "scope", self._last)
        return self._execute() if scope is None else scope

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None


@lru_cache(maxsize=_MOST_MODULES)
def module_name(source: str) -> str:
    """The name of the module of a source: equal in all processes, so that one can unpickle what another pickled."""
    return f"kaspr_snippet_{hashlib.sha256(source.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def announce(source: str, execute: Callable[[], Scope]) -> SnippetModule:
    """The module of a source. Its names can be used before the first execution; ``execute`` makes them then."""
    name = module_name(source)
    module = sys.modules.get(name)
    if isinstance(module, SnippetModule):
        return module
    with _changing:
        module = sys.modules.setdefault(name, SnippetModule(name, execute))
        _names[name] = None
        if len(_names) > _MOST_MODULES:
            oldest = next(iter(_names))
            del _names[oldest]
            sys.modules.pop(oldest, None)
    return cast("SnippetModule", module)
