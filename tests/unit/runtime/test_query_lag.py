from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kaspr_delta.runtime.query_lag import lag_of

NEWEST = {Path("/wh/shop/orders"): 7, Path("/wh/shop/a b"): 3}


OFFSET = {"reservoirId": "f9874cb4", "reservoirVersion": 6, "index": 0}


def changed_after(folder: Path, version: int) -> int | None:
    """Rows changed after a version: ten per commit."""
    return None if folder not in NEWEST else 10 * max(NEWEST[folder] - version, 0)


def source(folder: str, version: int, index: int) -> dict[str, Any]:
    offset = {"reservoirId": "f9874cb4", "reservoirVersion": version, "index": index}
    return {"description": f"DeltaSource[file:{folder}]", "endOffset": json.dumps(offset)}


@pytest.mark.parametrize(
    ("sources", "behind"),
    [
        ([source("/wh/shop/orders", 7, 5)], 0),
        ([source("/wh/shop/orders", 8, -1)], 0),  # all is read; version 8 is the next one
        ([source("/wh/shop/orders", 5, -100)], 30),
        ([source("/wh/shop/orders", 6, 0), source("/wh/shop/a%20b", 1, 0)], 30),
        ([{**source("/wh/shop/orders", 6, 0), "endOffset": OFFSET}], 10),
        ([{**source("/wh/shop/orders", 6, 0), "endOffset": str(OFFSET)}], 10),  # as PySpark 4.1 spells it
        ([{**source("/wh/shop/orders", 6, 0), "endOffset": "KafkaOffset(1)"}], None),
        ([source("/elsewhere/orders", 6, 0)], None),
        ([{"description": "DeltaSource[s3://bucket/orders]", "endOffset": "{}"}], None),
        ([source("/wh/shop/orders", 6, 0) | {"endOffset": None}], None),
    ],
)
def test_rows_that_were_not_read_are_counted_over_all_sources(
    sources: list[dict[str, Any]], behind: int | None
) -> None:
    assert lag_of({"sources": sources}, changed_after) == behind
