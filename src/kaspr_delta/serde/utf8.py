"""Find the first byte of a text file that is not UTF-8."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kaspr_delta.errors import UsageError

UNREADABLE_KEPT = "surrogateescape"
"""The ``errors`` setting for files opened for ``utf8_lines``: an unreadable byte becomes a character of its own."""

_UNREADABLE = re.compile("[\udc80-\udcff]")
_FIRST_UNREADABLE = 0xDC00


def utf8_lines(lines: Iterable[str], name: str) -> Iterator[str]:
    """The lines of a file called ``name``, opened with ``UNREADABLE_KEPT``.

    Raises UsageError with line and column, counted in bytes, of the first byte that is not UTF-8.
    """
    for number, line in enumerate(lines, start=1):
        found = _UNREADABLE.search(line)
        if found is not None:
            column = len(line[: found.start()].encode()) + 1
            byte = ord(found[0]) - _FIRST_UNREADABLE
            msg = f"{name}:{number}:{column}: this is not UTF-8 text: byte 0x{byte:02x}; save the file as UTF-8"
            raise UsageError(msg)
        yield line
