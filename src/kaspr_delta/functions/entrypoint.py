"""Find the entry point, the function that is called, in Python text.

A named entry point must be bound by the snippet itself. Without a name, the entry point is the first function that the
snippet defines. Imported names and names of ``init`` do not count, so that an ``import`` on the first line changes
nothing.
"""

from __future__ import annotations

import ast
import symtable
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from kaspr_delta.functions.snippet import Snippet

# The most levels of a tree. Python's own functions for trees take up to four calls a level, of about 1,000 calls.
_DEEPEST = 200
_TOO_DEEP = f"an expression or a block of this Python is nested in more than {_DEEPEST} others"
_DIVIDE = "divide it into several statements or functions"


class SnippetError(ValueError):
    """Python text that cannot be used: ``message`` describes the mistake, ``hint`` the remedy.

    ``line`` and ``column`` count from 1 within the text. ``line`` is None if the name of the entry point is wrong, not
    the text.
    """

    def __init__(self, message: str, hint: str = "", line: int | None = None, column: int = 1) -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.message = message
        self.hint = hint
        self.line = line
        self.column = column


def resolve(source: str, entrypoint: str | None = None, *, file: str = "<manifest>", first_line: int = 1) -> Snippet:
    """The snippet with its entry point. Raises SnippetError if there is none, or if the text is not Python."""
    statements = resolve_statements(source, file=file, first_line=first_line)
    with _warnings_left_to_the_author():
        written = _functions_written_in(statements.tree)
        if entrypoint is None and not written:
            raise SnippetError("this Python defines no function", "write a 'def', its first one is called", 1)
        if entrypoint is not None and entrypoint not in written and not _binds(statements, entrypoint):
            there = f"functions here: {', '.join(written)}" if written else "there is no function here"
            raise SnippetError(f"entrypoint '{entrypoint}' is not defined by this Python", there)
    return Snippet(source, entrypoint or written[0], file, first_line)


def resolve_statements(source: str, *, file: str = "<manifest>", first_line: int = 1) -> Snippet:
    """The snippet of an ``init`` block: statements without an entry point. Raises SnippetError if it is not Python."""
    snippet, before = Snippet(source, "", file, first_line), 0
    with _warnings_left_to_the_author():
        try:
            # Parsed separately first: a parser error counts lines of the source, a compiler error lines of the file.
            deepest = _deepest_line(snippet.tree)
            if deepest is None:
                before = first_line - 1
                snippet.code()
        except SyntaxError as error:
            raise _not_python(error, before) from None
        except (RecursionError, MemoryError):
            deepest = 1
        except ValueError as error:
            raise SnippetError(f"Python cannot read this: {error}", "", 1) from None
    if deepest is not None:
        raise SnippetError(_TOO_DEEP, _DIVIDE, deepest)
    return snippet


@contextmanager
def _warnings_left_to_the_author() -> Iterator[None]:
    """Ignore Python's warnings, for example about a doubtful escape: they refuse nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _not_python(error: SyntaxError, offset: int) -> SnippetError:
    hint = ""
    if isinstance(error, TabError):
        hint = "indent with blanks only"
    elif isinstance(error, IndentationError):
        hint = "check the indentation of this line and of the one above"
    message = f"this is not valid Python: {error.msg}"
    return SnippetError(message, hint, max(1, (error.lineno or 1) - offset), error.offset or 1)


def _binds(snippet: Snippet, name: str) -> bool:
    """Whether the snippet binds the name in another way: by an assignment, an import, or a ``def`` below an ``if``."""
    if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(snippet.tree)):
        return True
    names = symtable.symtable(snippet.source, "<manifest>", "exec")
    try:
        symbol = names.lookup(name)
    except KeyError:
        return False
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()


def _deepest_line(tree: ast.Module) -> int | None:
    """The first line at which a tree has more than ``_DEEPEST`` levels, None if there is none.

    An ``elif`` is no level, because nothing that reads trees takes it for one.
    """
    nodes: list[tuple[ast.AST, int]] = [(tree, 0)]
    while nodes:
        node, level = nodes.pop()
        if level > _DEEPEST and isinstance(node, ast.expr | ast.stmt):
            return node.lineno
        chained = node.orelse if isinstance(node, ast.If) and len(node.orelse) == 1 else []
        nodes.extend((child, level if child in chained else level + 1) for child in ast.iter_child_nodes(node))
    return None


def _functions_written_in(tree: ast.Module) -> tuple[str, ...]:
    """The names of the functions that a text itself defines at its top level, in order.

    ``def``, ``async def`` and lambdas bound to a name count; imported names do not.
    """
    names: list[str] = []
    for statement in tree.body:
        match statement:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda())
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Lambda())
            ):
                names.append(name)
    return tuple(names)
