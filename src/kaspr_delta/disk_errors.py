"""Disk errors of Python, Arrow, delta-rs and Spark, each as one sentence."""

from __future__ import annotations

import errno
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

# The texts of Java and Rust for an error that has a number in Python.
_SIGNS = {
    errno.ENOSPC: ("No space left on device", "(os error 28)"),
    errno.EDQUOT: ("Disk quota exceeded", "(os error 122)"),
    errno.EROFS: ("Read-only file system", "(os error 30)"),
    errno.EACCES: ("Permission denied", "AccessDeniedException", "(os error 13)"),
    errno.ENOTDIR: ("Not a directory", "(os error 20)"),
}
_FULL = {errno.ENOSPC, errno.EDQUOT}
_DENIED = {errno.EACCES, errno.EPERM}
_PATH = re.compile(r"(?:file:/*|AccessDeniedException: |LocalFileSystem error: [^/]*)(/[^\s\],:;\"']*[^\s\],:;.\"'])")


def disk_problem(error: BaseException, warehouse: Path | None = None) -> str | None:
    """One sentence that names the problem of the disk and the remedy; None for an error of another kind.

    The causes of the error are examined too. If an error names no path, the sentence names the warehouse.
    """
    for one in _with_causes(error):
        number = _number_of(one)
        if number in _FULL:
            return _full(one, warehouse)
        if number is not None:
            return _sentence(number, _path_of(one), warehouse)
    return None


def is_of_whole_disk(error: BaseException) -> bool:
    """Whether an error concerns every table on a disk: it is full or read-only."""
    return any(_number_of(one) in {*_FULL, errno.EROFS} for one in _with_causes(error))


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    seen = set[int]()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _number_of(error: BaseException) -> int | None:
    if isinstance(error, OSError) and error.errno is not None:
        known = {*_SIGNS, *_DENIED}
        in_the_way = error.errno == errno.EEXIST and error.filename is not None and Path(error.filename).is_file()
        return errno.ENOTDIR if in_the_way else error.errno if error.errno in known else None
    text = str(error)
    found = next((number for number, signs in _SIGNS.items() if any(sign in text for sign in signs)), None)
    # Only with a path is it an error of a file: a workspace denies permissions to users too.
    return None if found in {errno.EACCES, errno.ENOTDIR} and _PATH.search(text) is None else found


def _path_of(error: BaseException) -> Path | None:
    if isinstance(error, OSError) and error.filename is not None:
        return Path(error.filename)
    found = _PATH.search(str(error))
    return None if found is None else Path(re.sub("^/+", "/", found[1]))


def _full(error: BaseException, warehouse: Path | None) -> str:
    path = _path_of(error)
    if not isinstance(error, OSError) or path is None:
        # The path in a text may be one that was read, on another disk. Spark also writes to the temporary folder.
        candidates = [warehouse or Path.cwd(), Path(tempfile.gettempdir()), *([path] if path else [])]
        path = min(candidates, key=free_bytes)
    disk = _whole(path, warehouse)
    return f"the disk of {disk} is full: free space, then run again; nothing that was committed is lost"


def _sentence(number: int, path: Path | None, warehouse: Path | None) -> str:
    path = path or warehouse or Path.cwd()
    if number in _DENIED:
        return f"{path} cannot be used: permission is denied. Change its permissions, or choose another folder"
    path = _whole(path, warehouse)
    if number == errno.EROFS:
        return f"{path} cannot be written: its disk is read-only. Make it writable, or choose another folder"
    file = next((one for one in (path, *path.parents) if one.is_file()), path)
    return f"{path} cannot be used: {file} is a file where a folder is needed. Choose another folder"


def _whole(path: Path, warehouse: Path | None) -> Path:
    """The warehouse for a path inside it; any other path unchanged."""
    return warehouse if warehouse is not None and path.is_relative_to(warehouse) else path


def free_bytes(path: Path) -> int:
    """The free bytes of a path's disk. A path that does not exist yet counts as on the disk of its parent."""
    return shutil.disk_usage(next(one for one in (path, *path.parents) if one.exists())).free
