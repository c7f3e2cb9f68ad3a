"""Files of values beside manifests: ``values.yaml`` has the defaults; others are named like ``values.prod.yaml``."""

from __future__ import annotations

import re
from pathlib import Path

from kaspr_delta.spec.diagnostics import Finding, Location, Severity
from kaspr_delta.spec.document import YamlDocument, read_document
from kaspr_delta.spec.messages import found
from kaspr_delta.spec.values import NAME, WAREHOUSE, Value, written
from kaspr_delta.spec.yaml_text import text_of_file

DEFAULTS = "values.yaml"
_WORD = re.compile(r"[^\s,}#]+")
_NAMES = re.compile(r"values([.-].*)?\.ya?ml")


def is_of_values(name: str) -> bool:
    """Whether a file of this name holds values, not manifests."""
    return _NAMES.fullmatch(name) is not None


def read_values(path: Path, shown: str) -> tuple[dict[str, Value], tuple[Finding, ...]]:
    """The values of a file, by name, and the findings about it. It is called ``shown`` in them.

    It holds one mapping of names to texts, numbers and truth values.
    """
    at = Location(shown)
    text = text_of_file(path, at, "these values")
    if isinstance(text, Finding):
        return {}, (text,)
    document = read_document(text, at.file, 1)
    findings, data = list(document.findings), {} if document.data is None else document.data
    if not isinstance(data, dict):
        data = {}
        findings.append(Finding(Severity.ERROR, at, "a file of values is a mapping of names to values"))
    for name, value in data.items():
        if not NAME.fullmatch(name) or name == WAREHOUSE:
            message = f"'{name}' cannot be the name of a value"
            hint = f"a letter, then letters, digits, '_', '-' and '.'; {WAREHOUSE} has its own meaning"
            findings.append(Finding(Severity.ERROR, document.positions.key((name,)), message, hint))
        elif not isinstance(value, Value):
            message = f"the value of '{name}' is a text, a number or a truth value, found {found(value)}"
            findings.append(Finding(Severity.ERROR, document.positions.point((name,)), message))
        elif (text := _as_it_stands(document, name)) != written(value) and _is_number(value):
            message = f"the value of '{name}' is the number {written(value)}, also within a text"
            hint = f'put it in quotes if it is text: "{text}"'
            findings.append(Finding(Severity.WARNING, document.positions.value((name,)), message, hint))
    return data, tuple(findings)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_it_stands(document: YamlDocument, name: str) -> str:
    """The text of a value that has no blanks in it."""
    at = document.positions.value((name,))
    found = _WORD.match(document.line(at.line)[at.column - 1 :])
    return found[0] if found else ""
