"""The Python of a manifest, with its location in the YAML."""

from __future__ import annotations

from collections.abc import Iterator

from kaspr_delta.functions.entrypoint import SnippetError, resolve, resolve_statements
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.spec.base import FieldPath
from kaspr_delta.spec.diagnostics import Finding, Location, Severity
from kaspr_delta.spec.document import Document
from kaspr_delta.spec.positions import Positions

_INIT = ("processors", "init")


def snippet_at(path: FieldPath, source: str, entrypoint: str | None, positions: Positions) -> Snippet:
    """The snippet of the Code block at ``path``. Raises SnippetError if it cannot be used.

    Its file and first line are those of the manifest, so that tracebacks point into the YAML.
    """
    location = positions.location((*path, "python"))
    if path[-2:] == _INIT:
        return resolve_statements(source, file=location.value.file, first_line=location.text_line)
    return resolve(source, entrypoint, file=location.value.file, first_line=location.text_line)


def snippet_findings(document: Document) -> Iterator[Finding]:
    """The errors in all Code blocks of a document, even if the document has other errors."""
    for path, source, entrypoint in _code_blocks(document.data, ()):
        try:
            snippet_at(path, source, entrypoint, document.positions)
        except SnippetError as error:
            yield Finding(Severity.ERROR, _location(error, source, path, document), error.message, error.hint)


def _location(error: SnippetError, source: str, path: FieldPath, document: Document) -> Location:
    if error.line is None:
        return document.positions.value((*path, "entrypoint"))
    location = document.positions.location((*path, "python"))
    line = location.text_line + error.line - 1
    written = document.line(line).rstrip()
    text = next(iter(source.splitlines()[error.line - 1 :]), "").rstrip()
    # If the YAML line is the Python line with indentation, the column is exact.
    if location.style == "|" and written.endswith(text):
        return Location(location.value.file, line, len(written) - len(text) + max(1, error.column))
    # Folded and quoted text has lost its line breaks.
    return location.value


def _code_blocks(data: object, path: FieldPath) -> Iterator[tuple[FieldPath, str, str | None]]:
    if isinstance(data, list):
        for index, element in enumerate(data):
            yield from _code_blocks(element, (*path, index))
    elif isinstance(data, dict):
        source, entrypoint = data.get("python"), data.get("entrypoint")
        if isinstance(source, str) and source and not (entrypoint is not None and not isinstance(entrypoint, str)):
            yield path, source, entrypoint or None
        for key, value in data.items():
            yield from _code_blocks(value, (*path, key))
