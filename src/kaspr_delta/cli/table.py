"""``kaspr-delta table`` and ``export``: read rows of a table or of a join's result, or load a file into a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kaspr_delta.cli.completion import complete_table
from kaspr_delta.cli.progress import console, note, print_lines
from kaspr_delta.cli.records import key_of
from kaspr_delta.cli.target import Target
from kaspr_delta.errors import NotFoundError, UsageError
from kaspr_delta.plan.definition.resources import ResourceRef

if TYPE_CHECKING:
    from kaspr_delta.api.join import JoinHandle, StreamJoinHandle
    from kaspr_delta.api.table import TableHandle
    from kaspr_delta.application import Application


def table(
    target: Target,
    name: Annotated[
        str, typer.Argument(help="A table, or a join of tables (its result).", autocompletion=complete_table)
    ],
    action: Annotated[
        Literal["get", "put", "dump", "load"],
        typer.Argument(help="One row, write one row, all rows, or write the rows of a file."),
    ],
    argument: Annotated[str | None, typer.Argument(metavar="[KEY|FILE]", help="The key, or the file to load.")] = None,
    value: Annotated[str | None, typer.Argument(metavar="[VALUE]", help="put: the value.")] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="COLUMN", help="load: the column with the key; may be repeated."),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--text", metavar="COLUMN", help="load: a column that holds texts, also where they look otherwise."
        ),
    ] = None,
    number: Annotated[
        list[str] | None,
        typer.Option("--number", metavar="COLUMN", help="load: a column that must hold numbers."),
    ] = None,
    file_format: Annotated[
        Literal["json", "csv", "tsv", "parquet", "delta"] | None,
        typer.Option("--format", help="load: by default the extension of FILE, else json."),
    ] = None,
) -> None:
    """Read or write a table: rows are JSON lines with key and value.

    `load` also takes CSV, TSV, Parquet, and Delta tables (a folder, or a name with --format delta); CSV, TSV and JSON
    lines may be compressed, and - is standard input. With --key the rows of a file are the values, and the key stands
    in one of their columns. A table with a schema finds its columns by itself. In other tables a field of CSV is a
    number if it looks like one in every file (`100`, not `007`); --text and --number say what a column holds.

    A KEY is JSON where it can be read as such (`1` is a number, `"1"` is text), else text as it stands; of a table with
    raw keys it is text. So is a VALUE. A value of null deletes the row, also in a loaded file. `get` of a key that is
    not there prints no row and ends with 1. Rows of a table with windows have window_start and window_end too.

    For example:

        kaspr-delta table orders get O1
        kaspr-delta table orders put O1 '{"product_id": "P100", "quantity": 2}'
        kaspr-delta table orders-products-join dump
        kaspr-delta table products load products.jsonl
        kaspr-delta table products load products.csv --key sku
    """
    given = sum(one is not None for one in (argument, value))
    if given != {"dump": 0, "put": 2}.get(action, 1):
        expected = {"get": "a key", "put": "a key and a value", "load": "a file", "dump": "nothing more"}[action]
        raise UsageError(f"table {name} {action}: expected {expected} after it")
    if action != "load" and (key or text or number or file_format):
        raise UsageError(f"table {name} {action}: --key, --text, --number and --format are for load")
    if action == "load" and argument is not None:
        columns = {"key": key or (), "text": text or (), "number": number or ()}
        _load(target, name, argument, file_format, columns)
        return
    application = target.open()
    if action == "dump":
        _print(handle_of(application, name).rows(), raw_keys=has_raw_keys(application, name))
    elif action == "put":
        _put(application, name, argument or "", value or "")
    else:
        _get(application, name, argument or "")


def _get(application: Application, name: str, argument: str) -> None:
    handle, raw = handle_of(application, name), has_raw_keys(application, name)
    rows = handle.rows_of(handle.key_of_line(key_of(argument, raw=raw)))
    if not rows:
        console().print(f"{name} has no row {argument}", markup=False)
        raise typer.Exit(1)
    _print(rows, raw_keys=raw)


def _put(application: Application, name: str, argument: str, value: str) -> None:
    _refuse_join(application, name)
    from kaspr_delta.api.load import row_of_line

    key, row = key_of(argument, raw=has_raw_keys(application, name)), key_of(value, raw=False)
    table = application.table(name)
    typed = table.table.plan.typed
    table.put([(table.key_of_line(key), row if typed is None else row_of_line(typed, row))])
    note(f"{name} has the row {argument}" if row is not None else f"{name} has no row {argument}")


def _refuse_join(application: Application, name: str) -> None:
    if application.plan.table(name) is None and application.plan.join(name) is not None:
        raise UsageError(f"{name} is a join: write the tables that it joins")


def _print(rows: Iterable[tuple[Any, Any]], *, raw_keys: bool) -> None:
    from kaspr_delta.api.table import json_rows

    print_lines(json_rows(rows, raw_keys=raw_keys))


def _load(target: Target, name: str, file: str, written_as: str | None, columns: Mapping[str, Sequence[str]]) -> None:
    """Load rows, and print the kinds that were inferred of keys and columns."""
    from kaspr_delta.api.load import LoadOptions, columns_check, load_format, read_content, rows_in

    options, file_format = LoadOptions.of(**columns), load_format(file, written_as)
    application = target.open()
    _refuse_join(application, name)
    table = application.table(name)
    if file_format == "delta" or table.table.plan.is_foreign:
        count = table.load(file, **columns, file_format=file_format)
    else:
        rows = rows_in(file, file_format, columns_check(table.table.plan, file, options))
        content = read_content(table.table.plan, file, rows, options, json=file_format == "json")
        for kinds in content.notes():
            note(kinds)
        count = table.put_content(content)
    note(f"{count} rows loaded into {name}")


def handle_of(application: Application, name: str) -> TableHandle | JoinHandle | StreamJoinHandle:
    """A table, or the result of a join. Raises NotFoundError."""
    plan, waiting = application.plan, dict(application.plan.waiting)
    if plan.table(name) is not None or ResourceRef("table", name) in waiting:
        return application.table(name)
    if plan.join(name) is not None or ResourceRef("join", name) in waiting:
        return application.join(name)
    names = [table.name for table in application.plan.tables] + [join.name for join in application.plan.joins]
    raise NotFoundError.among("table or join", name, names)


def has_raw_keys(application: Application, name: str) -> bool:
    """Whether the keys of a table, or of a join's results, are bytes."""
    join, table = application.declared.join(name), application.declared.table(name)
    if table is not None:
        return table.serializers.key == "raw"
    return join is not None and join.spelling.key == "raw"


def export(
    target: Target,
    name: Annotated[
        str, typer.Argument(help="A table, or a join of tables (its result).", autocompletion=complete_table)
    ],
    file: Annotated[str, typer.Argument(help="The file to write; one that is there is replaced.")],
    file_format: Annotated[
        Literal["csv", "parquet"] | None, typer.Option("--format", help="By default FILE's extension.")
    ] = None,
) -> None:
    """Write a table or a join's result to a CSV or Parquet file, with typed columns.

    Parquet has nested columns (key, left, right, timestamp); in CSV their fields are columns: left.quantity,
    value.price. Rows stand in the order of their keys: numbers by value, then all others by their JSON text. A column
    whose values are of several types is JSON text. `table NAME load` reads an exported table back; a column whose name
    ends with `:json` has the values that no plain cell can hold.

    For example:

        kaspr-delta export orders-products-join joined.parquet
        kaspr-delta export orders orders.csv
    """
    handle = handle_of(target.open(), name)
    count = handle.export(file, file_format)
    note(f"{count} rows of {name} in {file}")
