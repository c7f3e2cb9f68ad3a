"""Functions of values in Spark that give what Python gives, some on the driver too (see ``docs/design/twins.md``)."""

from __future__ import annotations

from hashlib import md5

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from kaspr_delta.engine.rows.rows import ValueFunction
from kaspr_delta.errors import SerializationError
from kaspr_delta.serde.json_text import parse

# Python has no other quotes and no NaN, and reads text and nested values of any length, but no longer whole numbers.
_AS_PYTHON = {
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
    "maxStringLen": str((1 << 31) - 1),
    "maxNumLen": "4300",
}
_BREAK = "\r\n"
# A line that another one follows.
_LINE = "(.{76})(?=.)"


def base64_of(data: Column) -> Column:
    """Bytes as base64 text on one line, whatever the session is set to; NULL for NULL.

    Spark breaks base64 into lines of 76 characters, unless ``spark.sql.chunkBase64String.enabled`` says otherwise;
    Python breaks none. Tables of older versions hold such text with breaks.
    """
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


def is_json(text: Column) -> Column:
    """Whether text is JSON as ``serde.json_text`` reads it; NULL is none.

    ``try_parse_json`` is another question: it reads no name that stands twice in an object and no half character, and
    does not look at what follows the first value.
    """
    # In a list with its own hash: only if the text is exactly one value, the hash is the second item.
    mark = F.xxhash64(text)
    listed = F.concat(F.lit("["), text, F.lit(","), mark.cast("string"), F.lit("]"))
    # The first parser is twice as fast and accepts most JSON.
    quickly = F.try_variant_get(F.try_parse_json(listed), "$[1]", "BIGINT")
    exactly = F.get(F.from_json(listed, "ARRAY<STRING>", _AS_PYTHON), F.lit(1))
    return F.coalesce(quickly == mark, exactly == mark.cast("string"), F.lit(False))


def _is_json(text: bytes | None) -> bool:
    if text is None:
        return False
    try:
        parse(text)
    except SerializationError:
        return False
    return True


def _are_json(values: pa.ChunkedArray) -> pa.Array:
    return pa.array(map(_is_json, values.cast(pa.binary()).to_pylist()), pa.bool_())


def _hashes(values: pa.ChunkedArray) -> pa.Array:
    # Bytes: SQL may have written invalid UTF-8.
    texts = values.cast(pa.binary()).to_pylist()
    hashes = (None if one is None else md5(one, usedforsecurity=False).hexdigest() for one in texts)
    return pa.array(hashes, pa.string())


TEXT_HASH = ValueFunction(F.md5, _hashes)
"""The hash of a text: MD5, in hexadecimal; NULL for NULL."""
IS_JSON = ValueFunction(is_json, _are_json)
"""Whether a text is JSON."""
ALWAYS = ValueFunction(lambda _: F.expr("true"), lambda values: pa.repeat(pa.scalar(value=True), len(values)))
"""True."""
UNCHANGED = ValueFunction(lambda values: values, lambda values: values)
"""The value itself."""


def _event_time(timestamp: Column) -> Column:
    return F.when(F.unix_micros(timestamp) % 1_000 == 0, timestamp)


def _event_times(timestamps: pa.ChunkedArray) -> pa.ChunkedArray:
    whole = pc.equal(pc.floor_temporal(timestamps, unit="millisecond"), timestamps)
    return pc.if_else(whole, timestamps, pa.scalar(None, timestamps.type))


EVENT_TIME = ValueFunction(_event_time, _event_times)
"""The time of the event that wrote a row, from the row's ``timestamp``; NULL if no event did.

The time of an event is a whole millisecond. The time of a write without an event is not, so that the two differ.
"""


def write_time_in_spark() -> Column:
    """The present time, for rows that no event writes: ``driver_table.write_time`` in Spark."""
    return F.timestamp_micros(F.unix_millis(F.current_timestamp()) * 1_000 + 1)
