"""Rows and records as tables of Arrow, pandas and Polars, without Spark."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kaspr_delta.errors import SetupError
from kaspr_delta.serde.json_text import value_text
from kaspr_delta.serde.typed_values import plain_json

if TYPE_CHECKING:
    import pandas as pd


class Frames:
    """The forms of the rows or records of a handle."""

    __slots__ = ()

    def to_arrow(self) -> pa.Table:
        """The rows or records as an Arrow table."""
        raise NotImplementedError

    def to_pandas(self) -> pd.DataFrame:
        """The same for pandas. Raises SetupError without it."""
        _package("pandas")
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> Any:
        """The same for Polars, a ``polars.DataFrame``. Raises SetupError without it."""
        return _package("polars").from_arrow(self.to_arrow())


def table_of(columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Python values as an Arrow table, with types inferred from them.

    Objects are structs, whose missing fields are null. Values of several types in one column, field or list are JSON
    text, and so are objects without fields, which Parquet has not, and those with names that are no texts.

    >>> table_of({"key": [1, 2], "value": [{"a": 1}, {"b": 1, "a": "x"}], "any": [1, "one"]}).schema.types
    [DataType(int64), StructType(struct<a: string, b: int64>), DataType(string)]
    """
    return pa.table({name: inferred(values) for name, values in columns.items()})


def inferred(values: Sequence[Any]) -> pa.Array:
    """One column of ``table_of``."""
    there = [value for value in values if value is not None]
    kinds = {type(value) for value in there}
    names = list(dict.fromkeys(name for value in there for name in value)) if kinds == {dict} else []
    if names and all(isinstance(name, str) for name in names):
        fields = [inferred([None if value is None else value.get(name) for value in values]) for name in names]
        return pa.StructArray.from_arrays(fields, names, mask=pa.array([value is None for value in values]))
    if kinds == {list}:
        ends = list(accumulate(len(value or ()) for value in values))
        starts = [None if value is None else end - len(value) for value, end in zip(values, ends, strict=True)]
        items = inferred([item for value in there for item in value])
        return pa.ListArray.from_arrays(pa.array([*starts, ends[-1]], pa.int32()), items)
    try:
        if kinds != {dict}:
            return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # several types, or a number of more than 64 bits
        pass
    except UnicodeEncodeError:  # half a pair of surrogates
        return pa.array([value and value.encode("utf-8", "replace").decode() for value in values], pa.string())
    texts = (None if value is None else value_text(plain_json(value)) for value in values)
    return pa.array([text and text.encode("utf-8", "replace").decode() for text in texts], pa.string())


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise SetupError(f"{name} is not installed: pip install {name}") from error
