"""Functions of values that exist in Spark and on the driver. ``docs/design/twins.md`` names their tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import md5
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from kaspr_delta.engine.rows.json_columns import is_json
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
