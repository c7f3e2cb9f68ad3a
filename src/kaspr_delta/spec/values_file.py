"""Files of values beside manifests: ``values.yaml`` has the defaults; others are named like ``values.prod.yaml``."""

from __future__ import annotations

import re
from pathlib import Path

from kaspr_delta.spec.diagnostics import Finding, Location, Severity
from kaspr_delta.spec.document import read_document
from kaspr_delta.spec.limits import LONGEST_FILE
from kaspr_delta.spec.messages import found
from kaspr_delta.spec.values import NAME, WAREHOUSE, Value

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
    try:
        with path.open(encoding="utf-8-sig") as stream:
            text = stream.read(LONGEST_FILE + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        return {}, (Finding(Severity.ERROR, at, f"these values cannot be read: {reason}"),)
    if len(text) > LONGEST_FILE:
        return {}, (Finding(Severity.ERROR, at, f"this file has more than {LONGEST_FILE:,} characters"),)
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
