"""How far a streaming query is behind what it reads, told by its own progress."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


def lag_of(progress: Mapping[str, Any], newest: Callable[[Path], int | None]) -> int | None:
    """The commits that a query has not read yet, over all it reads; None where that cannot be told.

    ``progress`` is the query's last one, ``newest`` gives the newest version of the Delta table in a folder.
    """
    behind = [_behind(source, newest) for source in progress["sources"]]
    known = [commits for commits in behind if commits is not None]
    return sum(known) if len(known) == len(behind) else None


def _behind(source: Mapping[str, Any], newest: Callable[[Path], int | None]) -> int | None:
    folder, offset = _folder(source["description"]), _object(source["endOffset"])
    version = None if folder is None else newest(folder)
    if version is None or "reservoirVersion" not in offset:
        return None
    # A negative index stands before the first file of the version: that one is still to be read.
    read = int(offset["reservoirVersion"]) - (1 if int(offset["index"]) < 0 else 0)
    return max(version - read, 0)


def _folder(description: str) -> Path | None:
    """The folder in ``DeltaSource[file:/…/orders]``; None for one that is elsewhere than on this machine."""
    place = urlsplit(description.partition("[")[2].removesuffix("]"))
    return Path(unquote(place.path)) if place.scheme == "file" else None


def _object(offset: Any) -> Mapping[str, Any]:
    """An offset, which is JSON text or what that stands for."""
    found = json.loads(offset) if isinstance(offset, str) else offset
    return found if isinstance(found, Mapping) else {}
