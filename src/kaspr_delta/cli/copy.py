"""``kaspr-delta copy``: move a warehouse to another folder, here or in a bucket."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from kaspr_delta.cli.progress import console, logs_json, note, results, table_of, warn
from kaspr_delta.storage.namespace import Warehouse

if TYPE_CHECKING:
    from kaspr_delta.control.copying import Amount, Copied

# Seconds between two lines of progress.
_BETWEEN_LINES = 10.0
_WAREHOUSE = "a folder, or s3://BUCKET/PATH"


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help=f"The warehouse that is there: {_WAREHOUSE}.")],
    target: Annotated[str, typer.Argument(metavar="TO", help=f"The new warehouse, which is empty: {_WAREHOUSE}.")],
) -> None:
    """Copy a warehouse, with all tables, manifests and positions of streams, so that its applications go on there.

    No resource may run meanwhile, and nothing may be written: stop what produces records. The command may be killed
    and run again: it goes on. Until it has come to its end, nobody opens the copy. At the end files, versions and rows
    of the copy are compared with the source. The source stays as it is: let only one of the two run from then on.

    For example:

        kaspr-delta copy .kaspr-delta s3://my-bucket/shop
    """
    from kaspr_delta.control.copying import copy_warehouse

    began, there = time.monotonic(), Warehouse(target)
    with _showing() as report:
        copied = copy_warehouse(Warehouse(source), there, report)
    _show(copied)
    for one in copied:
        for table, reason in sorted(one.checked.uncounted.items()):
            warn(f"rows of {one.schema}.{table} are not counted: {reason}")
        if one.naming:
            warn(f"{', '.join(one.naming)}: these manifests name a place in {source}; apply them to the new warehouse")
    note(f"{there.folder} is complete: {time.monotonic() - began:.1f} s")


@contextlib.contextmanager
def _showing() -> Iterator[Callable[[Amount], None]]:
    """Show the progress: live on a terminal, else in a line from time to time."""
    screen, shown = console(), time.monotonic()
    if screen.is_terminal and not logs_json():
        with screen.status("Copying …") as status:
            yield lambda amount: status.update(f"Copying {_text(amount)} …")
        return

    def report(amount: Amount) -> None:
        nonlocal shown
        if time.monotonic() - shown >= _BETWEEN_LINES:
            shown = time.monotonic()
            note(f"copied {_text(amount)}")

    yield report


def _text(amount: Amount) -> str:
    megabytes, of_megabytes = amount.bytes / 1e6, amount.of_bytes / 1e6
    return f"{amount.schema}: {amount.files} of {amount.of_files} files, {megabytes:.1f} of {of_megabytes:.1f} MB"


def _show(copied: list[Copied]) -> None:
    table = table_of(("application",), ("tables", "commits", "rows", "files", "bytes"))
    for one in copied:
        checked = one.checked
        tables = len(checked.rows) + len(checked.uncounted)
        numbers = (tables, checked.commits, sum(checked.rows.values()), checked.files, checked.bytes)
        table.add_row(one.schema, *(f"{number:,}" for number in numbers))
    results().print(table)
    typer.echo("checked: each file and its size, the newest version of each table, and the rows by both logs")
