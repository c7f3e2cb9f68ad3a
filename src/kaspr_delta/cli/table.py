"""``kaspr-delta table``: rows of a table or of a join's result, as JSON lines."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import typer

from kaspr_delta.api.table import JoinHandle, TableHandle
from kaspr_delta.application import Application
from kaspr_delta.cli.options import AppOption, WarehouseOption, open_application
from kaspr_delta.cli.progress import console
from kaspr_delta.cli.records import json_line, read_lines
from kaspr_delta.errors import NotFoundError, SerializationError, UsageError
from kaspr_delta.serde.json_text import parse


class TableAction(str, Enum):
    """What to do with a table."""

    GET = "get"
    DUMP = "dump"
    LOAD = "load"


def table(  # noqa: PLR0913  one parameter an option
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A table, or a join (its result).")],
    action: Annotated[TableAction, typer.Argument(help="One row, all rows, or write the rows of a file.")],
    argument: Annotated[str | None, typer.Argument(metavar="[KEY|FILE]", help="The key, or the file to load.")] = None,
    warehouse: WarehouseOption = None,
    app: AppOption = None,
) -> None:
    """Read or write a table: rows are JSON lines with key and value.

    A KEY is JSON where it can be read as such ('1' is a number, '"1"' is text), else text as it stands. A value of null
    in a loaded file deletes the row. `get` of a key that is not there prints nothing and ends with 1.

    Examples: kaspr-delta table orders get O1 · kaspr-delta table orders-products-join dump
    """
    if (argument is None) != (action is TableAction.DUMP):
        expected = {TableAction.GET: "a key", TableAction.LOAD: "a file", TableAction.DUMP: "nothing more"}[action]
        msg = f"table {name} {action.value}: expected {expected} after it"
        raise UsageError(msg)
    rows = list(read_lines(argument)) if action is TableAction.LOAD and argument is not None else []
    handle = _handle(open_application(context, warehouse, app), name)
    if action is TableAction.LOAD:
        _load(handle, name, rows)
    elif action is TableAction.DUMP:
        for key, value in handle.rows():
            typer.echo(json_line({"key": key, "value": value}))
    else:
        key = _key(argument or "")
        value = handle.get(key)
        if value is None:
            console().print(f"{name} has no row {argument}")
            raise typer.Exit(1)
        typer.echo(json_line({"key": key, "value": value}))


def _load(handle: TableHandle | JoinHandle, name: str, rows: list[dict[str, Any]]) -> None:
    if isinstance(handle, JoinHandle):
        msg = f"{name} is the result of a join, which nobody else writes: load its tables"
        raise UsageError(msg)
    for number, row in enumerate(rows, start=1):
        if set(row) != {"key", "value"}:
            msg = f"row {number}: expected an object with key and value, not {json_line(row)[:80]}"
            raise UsageError(msg)
    handle.put([(row["key"], row["value"]) for row in rows])
    console().print(f"{len(rows)} rows loaded into {name}", style="dim")


def _handle(application: Application, name: str) -> TableHandle | JoinHandle:
    if application.plan.table(name) is not None:
        return application.table(name)
    if application.plan.join(name) is not None:
        return application.join(name)
    names = [resource.name for resource in (*application.plan.tables, *application.plan.joins)]
    raise NotFoundError.among("table or join", name, names)


def _key(text: str) -> Any:
    try:
        return parse(text)
    except SerializationError:
        return text
