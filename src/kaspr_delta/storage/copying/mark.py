"""The mark of an unfinished copy: a file in the warehouse, with which nobody opens it."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError

from kaspr_delta.errors import SetupError, UsageError
from kaspr_delta.storage.folders import Folder
from kaspr_delta.storage.namespace import Warehouse

MARK = "_kaspr_copy.json"
"""The name of the file."""


class Mark(BaseModel, frozen=True):
    """The content of the file: the folder of the warehouse that is copied."""

    source: str


def refuse_unfinished(location: Warehouse) -> None:
    """Raise SetupError for a warehouse that is a copy which has not come to its end."""
    if location.is_unity:
        return
    source = _marked(location.root)
    if source is not None:
        raise SetupError(
            f"{location.folder} is an unfinished copy: go on with `kaspr-delta copy {source} {location.folder}`"
        )


def begin(target: Folder, source: str) -> bool:
    """Mark a warehouse as a copy of another one. Returns whether the copy goes on.

    Raises UsageError for a warehouse that has something and is no unfinished copy of this source.
    """
    mark = Mark(source=source)
    if _marked(target) == source:
        return True
    found = target.names()
    if not found:
        target.make()
        if target.write_if_absent(MARK, mark.model_dump_json().encode()):
            return False
    other = _marked(target)
    if other == "" and found == [MARK]:
        target.write(MARK, mark.model_dump_json().encode())
        return False
    if other is not None:
        raise UsageError(f"{target} is an unfinished copy of {other}: name an empty folder")
    raise UsageError(f"{target} is not empty: name an empty folder, or remove what is in it")


def end(target: Folder) -> None:
    """Remove the mark."""
    target.remove(MARK)


def _marked(folder: Folder) -> str | None:
    """The source of an unfinished copy; empty if the mark cannot be read, None if there is none."""
    try:
        return Mark.model_validate_json(folder.read(MARK)).source
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValidationError:  # a kill came between the creation of the file and its content
        return ""
