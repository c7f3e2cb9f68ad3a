"""The text of a file: decompressed, without a byte order mark, with bytes that are not UTF-8 kept apart."""

from __future__ import annotations

import io
import re
from typing import BinaryIO, TextIO, cast

import pyarrow as pa

from kaspr_delta.errors import UsageError

UNREADABLE_KEPT = "surrogateescape"
"""The ``errors`` setting of a text stream that is checked: an unreadable byte becomes a character of its own."""

# The first bytes of compressed files, whatever their names, with the name of the codec.
_CODECS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
_ZIP = b"PK\x03\x04"
_UNREADABLE = re.compile("[\udc80-\udcff]")
_FIRST_UNREADABLE = 0xDC00
_BREAK = re.compile("\r\n|\r|\n")


def text_stream(data: BinaryIO, name: str) -> TextIO:
    """The text of a file called ``name``. Lines end as they do in the file. Raises UsageError for an archive."""
    buffered = data if isinstance(data, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", data))
    start = buffered.peek(4)[:4]
    if start.startswith(_ZIP):
        raise UsageError(f"{name} is a zip archive or a spreadsheet: give the CSV, JSON lines or Parquet file in it")
    codec = next((codec for magic, codec in _CODECS.items() if start.startswith(magic)), None)
    plain = buffered if codec is None else pa.CompressedInputStream(buffered, codec)
    return io.TextIOWrapper(plain, encoding="utf-8-sig", errors=UNREADABLE_KEPT, newline="")


def not_utf8(text: str) -> tuple[int, int, str] | None:
    """The first byte of a text that is not UTF-8: its line in the text, from 0 on, its column, and the message."""
    found = _UNREADABLE.search(text)
    if found is None:
        return None
    *lines, start = _BREAK.split(text[: found.start()])
    column = len(start.encode(errors=UNREADABLE_KEPT)) + 1
    byte = ord(found[0]) - _FIRST_UNREADABLE
    return len(lines), column, f"this is not UTF-8 text: byte 0x{byte:02x}; save the file as UTF-8"


def readable(text: str) -> str:
    """The text with U+FFFD in place of bytes that are not UTF-8."""
    return text.encode(errors=UNREADABLE_KEPT).decode(errors="replace")
