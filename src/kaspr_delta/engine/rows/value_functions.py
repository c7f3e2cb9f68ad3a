"""Functions of values that exist in Spark and on the driver. ``docs/design/twins.md`` names their tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import md5
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from kaspr_delta.errors import SerializationError
from kaspr_delta.serde.json_text import parse

if TYPE_CHECKING:
    from pyspark.sql import Column


class TextHash:
    """The hash of a text: MD5, in hexadecimal; NULL for NULL."""

    def column(self, values: Column) -> Column:
        return F.md5(values)

    def array(self, values: pa.ChunkedArray) -> pa.Array:
        # Bytes: SQL may have written invalid UTF-8.
        texts = values.cast(pa.binary()).to_pylist()
        hashes = (None if one is None else md5(one, usedforsecurity=False).hexdigest() for one in texts)
        return pa.array(hashes, pa.string())


class IsJson:
    """Whether a text is JSON."""

    def column(self, values: Column) -> Column:
        return is_json(values)

    def array(self, values: pa.ChunkedArray) -> pa.Array:
        return pa.array(map(_is_json, values.cast(pa.binary()).to_pylist()), pa.bool_())


class Always:
    """True."""

    def column(self, values: Column) -> Column:
        return F.expr("true")

    def array(self, values: pa.ChunkedArray) -> pa.Array:
        return pa.repeat(pa.scalar(value=True), len(values))


class Unchanged:
    """The value itself."""

    def column(self, values: Column) -> Column:
        return values

    def array(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        return values


@dataclass(frozen=True, slots=True)
class InSpark:
    """A function that only Spark has: rows are brought to the driver after it. Raises TypeError for rows there."""

    function: Callable[[Column], Column]

    def column(self, values: Column) -> Column:
        return self.function(values)

    def array(self, values: pa.ChunkedArray) -> pa.Array:
        msg = "only Spark has this function"
        raise TypeError(msg)


def _is_json(text: bytes) -> bool:
    try:
        parse(text)
    except SerializationError:
        return False
    return True


# Python has no other quotes and no NaN, and reads text and nested values of any length, but no longer whole numbers.
_AS_PYTHON = {
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
    "maxStringLen": str((1 << 31) - 1),
    "maxNumLen": "4300",
}


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
