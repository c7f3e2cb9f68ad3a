"""Read a file for a table: all of its rows are checked before one of them is written.

All formats go through ``serde.files``. In a table with columns each cell is checked against the type of its column. In
a table without columns a cell becomes a JSON value.
"""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa

from kaspr_delta.errors import SerializationError, UsageError
from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.plan.definition.typed_tables import TypedPlan
from kaspr_delta.serde.files.read import checked_format, file_rows, format_named, rows_of_path
from kaspr_delta.serde.files.rows import ColumnsCheck, FileRow, any_columns, first_row, without_problems
from kaspr_delta.serde.files.typed import of_json, typed_row
from kaspr_delta.serde.files.untyped import UntypedCells, nested_value, whole_or_fraction
from kaspr_delta.serde.typed_text import text_of
from kaspr_delta.spec.ddl import Column
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.layout import WRITTEN_AT

LoadFormat = Literal["json", "csv", "tsv", "parquet", "delta"]

STANDARD_INPUT = "-"
# Columns that ``export`` writes and that are not loaded: rows get the time of the load.
_EXPORTED = {"timestamp", WRITTEN_AT}
# Rows are made into Arrow batches of so many.
_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The columns with the key, and the columns that hold text, or numbers, whatever their cells look like."""

    key: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    number: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, key: str | Sequence[str] = (), text: str | Sequence[str] = (), number: str | Sequence[str] = ()
    ) -> LoadOptions:
        """The options of names, or lists of names. Raises UsageError for a column that is to be both."""
        given = cls(*((one,) if isinstance(one, str) else tuple(one) for one in (key, text, number)))
        if both := sorted(set(given.text) & set(given.number)):
            raise UsageError(f"column {both[0]!r} cannot hold texts and numbers: name it once")
        return given

    @property
    def says_types(self) -> bool:
        """Whether they say what columns hold."""
        return bool(self.text or self.number)

    def says_type_of(self, columns: Sequence[str]) -> bool:
        """Whether they say what each of these columns holds."""
        return {*columns} <= {*self.text, *self.number}

    def refuse_types(self, table: str) -> None:
        """Raise UsageError if they say what columns of a table with a schema hold."""
        if self.says_types:
            raise UsageError(f"table {table!r} has a schema, which says what is text and what is a number")


@dataclass(frozen=True, slots=True)
class Content:
    """The rows of a file for one table: ``texts`` by key, or, in a table with columns, ``columns``.

    ``infers``: neither the file nor the options said the kinds of the keys.
    """

    source: str
    count: int
    texts: Mapping[str, str | None] = field(default_factory=dict)
    columns: pa.Table | None = None
    kinds: Mapping[str, Counter[str]] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    infers: bool = False

    def notes(self) -> Iterator[str]:
        """The kinds that were inferred: of the keys, and of columns with several kinds."""
        for name, kinds in self.kinds.items():
            listed = kinds_listed(kinds.most_common())
            if name in self.key:
                yield f"key {name}: {listed}"
            elif len(kinds) > 1:
                yield f"column {name}: {listed} (--text {name} makes all of them texts)"


def kinds_listed(kinds: Iterable[tuple[str, int]]) -> str:
    """Kinds and their numbers as text, such as ``1 number, 2 texts``."""
    return ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in kinds)


def load_format(source: str, given: str | None) -> LoadFormat:
    """The format of a file: as given, or by its name or content. Raises UsageError for an unknown format."""
    if given == "delta" or (given is None and (Path(source) / "_delta_log").is_dir()):
        return "delta"
    if given is not None:
        try:
            return checked_format(given)
        except UsageError:
            expected = ", ".join(get_args(LoadFormat))
            raise UsageError(f"format {given!r}: expected {expected}") from None
    found = format_named(source)
    if found is None and source != STANDARD_INPUT and Path(source).suffix:
        raise UsageError(
            f"{source}: its name does not end like one of CSV, TSV, JSON lines or Parquet: say which it is (--format)"
        )
    return found or "json"


def rows_in(source: str, file_format: LoadFormat, check: ColumnsCheck = any_columns) -> Iterator[FileRow]:
    """The rows of a file of this machine, or of standard input. Raises UsageError, also that of ``check``."""
    known = checked_format(file_format)
    if source == STANDARD_INPUT:
        return file_rows(io.BytesIO(sys.stdin.buffer.read()), "standard input", known, check=check)
    return rows_of_path(source, known, check)


def columns_check(plan: TablePlan, source: str, options: LoadOptions) -> ColumnsCheck:
    """The check of the columns that a file names, which may have no rows: see ``wanted_columns``."""

    def check(names: Sequence[str]) -> None:
        if plan.typed is not None:
            options.refuse_types(plan.name)
            wanted_columns(plan.typed, plan.name, source, names, options.key)
        elif missing := set(options.key) - set(names):
            raise UsageError(f"{source}: {_no_column(missing, names)}")

    return check


def _no_column(missing: set[str], names: Iterable[str]) -> str:
    return f"there is no column {', '.join(map(repr, sorted(missing)))} (there are: {', '.join(map(str, names))[:200]})"


def read_content(plan: TablePlan, source: str, rows: Iterable[FileRow], options: LoadOptions, *, json: bool) -> Content:
    """The rows of a file as the table stores them. Raises UsageError that names every problem with its place."""
    if plan.typed is None or json:
        return _texts(plan, source, rows, options, json=json)
    options.refuse_types(plan.name)
    return _columns(plan.typed, plan.name, source, iter(rows), options.key)


def _texts(plan: TablePlan, source: str, rows: Iterable[FileRow], options: LoadOptions, *, json: bool) -> Content:
    keeps_bytes = frozenset(n for n in ("key", "value") if getattr(plan.serializers, n) == "raw")
    cells = UntypedCells(frozenset(options.text), frozenset(options.number), keeps_bytes)
    table, texts, count = text_of(plan), dict[str, str | None](), 0
    unseen = {*options.text, *options.number}

    def stored(row: FileRow) -> tuple[str, str | None]:
        has_columns = isinstance(row.cells, Mapping)
        if unseen and has_columns:
            unseen.difference_update(row.cells)
        inferred = cells.row(row) if not json or (options.says_types and has_columns) else row
        key, value = _pair(inferred, options.key)
        if plan.typed is not None:
            key, value = table.of_line(key), row_of_line(plan.typed, value)
        return table.key(key), table.row(key, value)

    for row in without_problems(_with_cells(row, stored) for row in rows):
        key, value = row.cells
        texts[key] = value
        count += 1
    if count and unseen:
        raise UsageError(f"{source} has no column {_listed(unseen)}, which is to hold texts or numbers")
    infers = not json and not options.says_type_of(options.key or ("key",))
    return Content(source, count, texts, kinds=cells.kinds, key=options.key or ("key",), infers=infers)


def _with_cells(row: FileRow, made_of: Callable[[FileRow], Any]) -> FileRow:
    """A row with the cells that are made of it, or with the problem that this raises."""
    if row.problem is not None:
        return row
    try:
        return row._replace(cells=made_of(row))
    except (SerializationError, UsageError) as error:
        return row._replace(problem=str(error))


def _pair(row: FileRow, key: Sequence[str]) -> tuple[Any, Any]:
    """The key and value of a row, for ``key`` as in ``TableHandle.load``. Raises UsageError."""
    found = row.cells
    if not isinstance(found, Mapping):
        raise UsageError(f"expected an object with key and value, not {(row.text or '').strip()[:60]}")
    if not key:
        if "key" in found and (value := nested_value(found, _EXPORTED)) is not None:
            return _whole(found["key"]), value[0]
        names = ", ".join(map(str, found))[:80]
        raise UsageError(
            f"expected an object with key and value, not one with {names}: say which column is the key (--key)"
        )
    for name in key:
        if name not in found:
            raise UsageError(_no_column({name}, found))
        if found[name] is None:
            raise UsageError(f"the key column {name} is empty")
    parts = [_whole(found[name]) for name in key]
    # A column may refer to keys of another table.
    cells = {name: cell if row.exact else whole_or_fraction(cell) for name, cell in found.items()}
    return (parts[0] if len(parts) == 1 else parts), cells


def _whole(key: Any) -> Any:
    """A key in which whole numbers have no fraction, as in all files."""
    return [_whole(part) for part in key] if isinstance(key, list) else whole_or_fraction(key)


def row_of_line(typed: TypedPlan, row: Any) -> Any:
    """A row of JSON lines with the types of a table, of which JSON has some as text, as ``dump`` prints it."""
    types = {column.name: column.type for column in typed.columns}
    if not isinstance(row, Mapping):
        return row
    return {name: of_json(types[name], one, name) if name in types else one for name, one in row.items()}


def _columns(typed: TypedPlan, table: str, source: str, rows: Iterator[FileRow], key: Sequence[str]) -> Content:
    """The rows as columns of the table: columns are found by name, and those that the file lacks are null."""
    first, rows = first_row(rows)
    found = [] if first is None else list(first.cells)
    wanted = wanted_columns(typed, table, source, found, key) if found else []
    schema = arrow_schema(", ".join(map(str, typed.columns)))
    batches, batch, keys = list[pa.RecordBatch](), list[dict[str, Any]](), set[Any]()

    for row in without_problems(_with_cells(row, partial(_typed, typed, wanted, key, keys)) for row in rows):
        batch.append(row.cells)
        if len(batch) == _BATCH:
            batches.append(pa.RecordBatch.from_pylist(batch, schema))
            batch.clear()
    batches.append(pa.RecordBatch.from_pylist(batch, schema))
    columns = pa.Table.from_batches(batches, schema)
    return Content(source, columns.num_rows, columns=columns)


def wanted_columns(typed: TypedPlan, table: str, source: str, found: Sequence[str], key: Sequence[str]) -> list[Column]:
    """The columns that a file has. Raises UsageError if it lacks one of the key, or has one that the table has not."""
    if key and len(key) != len(typed.key):
        raise UsageError(f"the key of {table} has the columns {', '.join(typed.key)}: name as many (--key)")
    names = [column.name for column in typed.columns]
    unknown = set(found) - set(names) - set(key) - {WRITTEN_AT}
    missing = set(key or typed.key) - set(found)
    if unknown or missing:
        problem = f"no column {_listed(missing)}, of the key" if missing else f"columns of its own: {_listed(unknown)}"
        raise UsageError(f"{source} has {problem} (the columns of {table} are {', '.join(names)})")
    return [column for column in typed.columns if column.name in found]


def _typed(
    typed: TypedPlan, wanted: Sequence[Column], key: Sequence[str], keys: set[Any], row: FileRow
) -> dict[str, Any]:
    """The row of a table with columns; its key is added to the ``keys``. Raises SerializationError."""
    values = typed_row(row, wanted)
    for column, given in zip(typed.key, key, strict=False):
        if given != column:
            of = next(one for one in typed.columns if one.name == column)
            values.update(typed_row(row._replace(cells={column: row.cells[given]}), [of]))
    own = tuple(values.get(name) for name in typed.key)
    if None in own:
        raise SerializationError(f"it has no key ({', '.join(typed.key)})")
    if own in keys:
        raise SerializationError(f"it has the key of another row: {', '.join(map(str, own))}")
    keys.add(own)
    return values


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))
