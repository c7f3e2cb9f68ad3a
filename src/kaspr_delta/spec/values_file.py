"""Files of values beside manifests: ``values.yaml`` has the defaults; others are named like ``values.prod.yaml``."""

from __future__ import annotations

import re
from pathlib import Path

from kaspr_delta.spec.diagnostics import Finding, Location, Severity
from kaspr_delta.spec.document import read_document
from kaspr_delta.spec.messages import found
from kaspr_delta.spec.values import NAME, WAREHOUSE, Value
from kaspr_delta.spec.yaml_text import text_of_file

DEFAULTS = "values.yaml"
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
    return data, tuple(findings)
