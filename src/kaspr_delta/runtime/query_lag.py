"""The lag of a streaming query behind its sources, from its own progress."""

from __future__ import annotations

import ast
import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from kaspr_delta.storage.stream_checkpoint import Position


def lag_of(progress: Mapping[str, Any], changed_after: Callable[[Path, int], int | None]) -> int | None:
    """The number of rows and records in all sources that a query has not read yet; None if it is unknown.

    ``progress`` is the query's last one. ``changed_after`` returns how many rows changed after a version of the Delta
    table in a folder.
    """
    behind = [_behind(source, changed_after) for source in progress["sources"]]
    known = [rows for rows in behind if rows is not None]
    return sum(known) if len(known) == len(behind) else None


def _behind(source: Mapping[str, Any], changed_after: Callable[[Path, int], int | None]) -> int | None:
    folder, offset = _folder(source["description"]), _object(source["endOffset"])
    position = Position.of(offset)
    return None if folder is None or position is None else changed_after(folder, position.unread - 1)


def _folder(description: str) -> Path | None:
    """The folder in ``DeltaSource[file:/…/orders]``; None if it is not on this machine."""
    url = urlsplit(description.partition("[")[2].removesuffix("]"))
    return Path(unquote(url.path)) if url.scheme == "file" else None


def _object(offset: Any) -> Mapping[str, Any]:
    """An offset as an object; empty if it is none. Spark gives it parsed, as JSON text, or (4.1) as Python's text."""
    found = _parsed(offset) if isinstance(offset, str) else offset
    return found if isinstance(found, Mapping) else {}


def _parsed(text: str) -> Any:
    for read in (json.loads, ast.literal_eval):
        with contextlib.suppress(ValueError, SyntaxError):
            return read(text)
    return None
