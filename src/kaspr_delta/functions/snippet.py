"""Python written inside a manifest: compiled when the manifest is loaded, run where the data is.

Spark's executors receive a snippet as text; each process compiles it once. Its file name and line numbers are those of
the manifest, so a traceback points into the YAML.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from types import CodeType
from typing import Any

from kaspr_delta.functions.module import SnippetModule, announce, module_name

# Flags of code whose call returns an awaitable or a generator.
_NO_VALUE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
# Reentrant: the garbage collector may call this module again in the same thread.
_ONE_AT_A_TIME = threading.RLock()


def tree_of(source: str, file: str = "<manifest>") -> ast.Module:
    """The syntax tree of a text. Raises SyntaxError and the other errors of ``ast.parse``.

    One thread at a time parses. Python before 3.11.8 counts the depth of the tree that it builds in state that all
    threads share. While it builds a tree, the garbage collector may let another thread run; if that thread builds one
    too, both fail with a SystemError.
    """
    with _ONE_AT_A_TIME:
        return ast.parse(source, file)


@dataclass(frozen=True, slots=True)
class Snippet:
    """Source text and its entry point, the function that is called.

    ``entrypoint`` is resolved. It is empty only for an ``init`` block, whose functions are not called.
    ``first_line`` is the line of the manifest on which the source begins, counting from 1.
    """

    source: str
    entrypoint: str
    file: str = "<manifest>"
    first_line: int = 1

    def code(self) -> CodeType:
        """The compiled source. Raises SyntaxError, with the manifest's line, if it is not Python."""
        return _compiled(self.source, self.file, self.first_line)

    @property
    def tree(self) -> ast.Module:
        return tree_of(self.source)

    @property
    def remembers_nothing(self) -> bool:
        """Whether executing the source once gives the same results as executing it for every value.

        True if the source only imports and defines functions, the entry point among them, and neither changes global
        names nor keeps anything in attributes of its functions.
        """
        return _remembers_nothing(self.source, self.entrypoint)

    def may_use(self, name: str) -> bool:
        """Whether the source may read a global name. False only if it certainly does not."""
        return name in self.source or not self.remembers_nothing

    @property
    def imports(self) -> frozenset[str]:
        """The modules that the source imports anywhere, and the packages that contain them."""
        found: list[str] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found.extend(imported.name for imported in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.extend((node.module, *(f"{node.module}.{imported.name}" for imported in node.names)))
        return frozenset(name for module in found for name in accumulate(module.split("."), "{}.{}".format))

    @property
    def returns(self) -> bool:
        """Whether the entry point returns a value: it is neither a generator nor asynchronous."""
        written = (of for of in self.code().co_consts if isinstance(of, CodeType) and of.co_name == self.entrypoint)
        return not any(function.co_flags & _NO_VALUE for function in written)

    @property
    def fingerprint(self) -> str:
        """A hash of the entry point and the source. Comments and blanks do not change it."""
        return hashlib.sha256(f"{self.entrypoint}\n{ast.unparse(self.tree)}".encode()).hexdigest()

    def announce(self) -> SnippetModule:
        """Make the module of the source known before its first execution, so that its objects can be unpickled."""
        return announce(self.source, lambda: self.run({}))

    def enter(self, scope: dict[str, Any]) -> None:
        """Make ``scope``, in which the source was executed, the names of its module in this thread."""
        self.announce().enter(scope)

    def run(self, scope: dict[str, Any]) -> dict[str, Any]:
        """Execute the top-level statements in ``scope``, as the module of the source, and return it."""
        scope["__name__"] = module_name(self.source)
        self.enter(scope)
        # Running the manifest author's own code is the purpose of this product.
        exec(self.code(), scope)  # noqa: S102
        return scope

    def function(self, scope: dict[str, Any]) -> Callable[..., Any]:
        """Execute the source in ``scope`` and return the entry point."""
        function: Callable[..., Any] = self.run(scope)[self.entrypoint]
        return function


@lru_cache(maxsize=4096)
def in_empty_scope(snippet: Snippet) -> Callable[..., Any]:
    """The entry point, made once in an empty scope: selectors and extractors see neither ``init`` nor ``context``."""
    return snippet.function({})


@lru_cache(maxsize=4096)
def _compiled(source: str, file: str, first_line: int) -> CodeType:
    tree = tree_of(source, file)
    ast.increment_lineno(tree, first_line - 1)
    return compile(tree, file, "exec", dont_inherit=True)


@lru_cache(maxsize=4096)
def _remembers_nothing(source: str, entrypoint: str) -> bool:
    tree = tree_of(source)
    names = {statement.name for statement in tree.body if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)}
    if entrypoint not in names or not all(map(_only_defines, tree.body)):
        return False
    return not any(_may_leave_traces(node, names) for node in ast.walk(tree))


def _only_defines(statement: ast.stmt) -> bool:
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
            return True
        case (
            ast.FunctionDef(args=arguments, decorator_list=[]) | ast.AsyncFunctionDef(args=arguments, decorator_list=[])
        ):
            defaults = (*arguments.defaults, *filter(None, arguments.kw_defaults))
            return all(isinstance(default, ast.Constant) for default in defaults)
    return False


def _may_leave_traces(node: ast.AST, functions: Collection[str]) -> bool:
    """Whether a node may affect the next call: by a global name, or by an attribute of a function."""
    match node:
        case ast.Global():
            return True
        case ast.Name(id="globals" | "vars" | "exec" | "eval" | "setattr" | "locals"):
            return True
        case ast.Attribute(value=ast.Name(id=name)):
            return name in functions
    return False
