"""Bytes as base64 text, in Spark as Python writes it: on one line, whatever the session is set to.

Spark breaks base64 into lines of 76 characters, unless ``spark.sql.chunkBase64String.enabled`` says otherwise; Python
breaks none. Tables of older versions hold such text with breaks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

_BREAK = "\r\n"
# A line that another one follows.
_LINE = "(.{76})(?=.)"


def base64_of(data: Column) -> Column:
    """Bytes as base64 text; NULL for NULL."""
    return on_one_line(F.base64(data))


def bytes_of(text: Column) -> Column:
    """The bytes that base64 text stands for, also with breaks."""
    return F.unbase64(on_one_line(text))


def on_one_line(text: Column) -> Column:
    """Base64 text without breaks. JSON text in which all strings are base64 may be given too."""
    return F.replace(text, F.lit(_BREAK), F.lit(""))


def in_lines(text: Column) -> Column:
    """Base64 text with line breaks, as Spark writes it by default: hashes in the state of joins are made from it."""
    return F.regexp_replace(on_one_line(text), _LINE, f"$1{_BREAK}")
