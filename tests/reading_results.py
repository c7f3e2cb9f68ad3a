"""The snippets of docs/reading-results.md, and the tables that they read, written as runs write them."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from kaspr_delta import Application
from kaspr_delta.storage.layout import RESULT
from kaspr_delta.storage.opening import folder_tables
from tests.documented import ROOT, Block, blocks
from tests.folders import append_rows

PAGE = ROOT / "docs" / "reading-results.md"
NOW = datetime(2026, 5, 1, tzinfo=timezone.utc)
ROWS = (
    ("O1", {"order_id": "O1", "product_id": "P100", "quantity": 3}, {"name": "Widget", "price": 9.5}),
    ("O2", {"order_id": "O2", "product_id": "P200", "quantity": 1}, {"name": "Kettle", "price": 20.0}),
)


def write_results(folder: Path) -> None:
    """Make the warehouse ``wh`` of order enrichment, whose result got each row in a commit of its own."""
    app = Application.open(ROOT / "bundles" / "order-system", warehouse=folder / "wh")
    delta = folder_tables(app.delta.namespace)
    assert delta is not None
    for key, left, right in ROWS:
        row = {"key": json.dumps(key), "left": json.dumps(left), "right": json.dumps(right), "timestamp": NOW}
        append_rows(delta, "orders_products_join", RESULT, row)


def snippets() -> Iterator[tuple[Block, str]]:
    """The Python blocks of the page, each with the output that the block below it documents."""
    found = list(blocks(PAGE, "python", "text"))
    assert [block.language for block in found] == ["python", "text"] * (len(found) // 2)
    return ((one, below.text) for one, below in zip(found[::2], found[1::2], strict=True))


def packages_of(block: Block) -> set[str]:
    """The packages that a snippet imports."""
    return {name.split(".")[0] for name in re.findall(r"(?m)^(?:from|import) (\S+)", block.text)}


def printed(block: Block, **names: Any) -> str:
    """The output of a snippet, which may use these names."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(block.text, str(block), "exec"), names)  # noqa: S102  a snippet is there to be executed
    return output.getvalue()
