"""``kaspr-delta sql``: a statement of Spark's SQL."""

from __future__ import annotations

from typing import Annotated

import typer

from kaspr_delta.cli.progress import print_lines
from kaspr_delta.cli.target import Target
from kaspr_delta.errors import UsageError, first_line
from kaspr_delta.serde.typed_values import plain_json


def sql(
    target: Target, statement: Annotated[str, typer.Argument(help="A statement, such as SELECT … FROM orders.")]
) -> None:
    """Run SQL in the application's schema, by Spark, and print the rows as JSON lines.

    Tables and results are there by their Delta names, and those without a schema also as views `v_NAME`, whose keys and
    values have fields (`value:quantity`).

    For example:

        kaspr-delta sql "SELECT key, value:quantity FROM v_orders"
    """
    from pyspark.errors import PySparkException

    application = target.open()
    try:
        rows = application.sql(statement).collect()
    except PySparkException as error:
        raise UsageError(first_line(error)) from error
    print_lines(plain_json(row.asDict(recursive=True)) for row in rows)
