"""``kaspr-delta export``: write a table or a join's result to a CSV or Parquet file."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from kaspr_delta.cli.completion import complete_table
from kaspr_delta.cli.progress import console
from kaspr_delta.cli.table import handle_of
from kaspr_delta.cli.target import Target


class ExportedAs(str, Enum):
    """The formats of an export."""

    CSV = "csv"
    PARQUET = "parquet"


def export(
    target: Target,
    name: Annotated[
        str, typer.Argument(help="A table, or a join of tables (its result).", autocompletion=complete_table)
    ],
    file: Annotated[str, typer.Argument(help="The file to write; one that is there is replaced.")],
    file_format: Annotated[ExportedAs | None, typer.Option("--format", help="By default FILE's extension.")] = None,
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
    count = handle.export(file, file_format.value if file_format else None)
    console().print(f"{count} rows of {name} in {file}", style="dim", markup=False)
