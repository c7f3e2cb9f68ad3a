from __future__ import annotations

import base64
import json

import pyarrow as pa

from kaspr_delta.engine.streams.event import InputRecord
from kaspr_delta.engine.streams.input_rows import records_of
from tests.unit.engine.agent.agents import record


def rows(records: list[InputRecord], headers: list[str | None]) -> pa.Table:
    columns = {name: [getattr(one, name) for one in records] for name in InputRecord._fields}
    return pa.table({**columns, "headers": pa.array(headers, pa.string())})


def test_headers_are_read_from_text() -> None:
    encoded = [{"key": "id", "value": base64.b64encode(b"\xff").decode()}, {"key": "none", "value": None}]
    records = [record(1, key="a"), record(2, key="b")]
    with_headers, without = records_of(rows(records, [json.dumps(encoded), None]))
    assert with_headers.headers == [{"key": "id", "value": b"\xff"}, {"key": "none", "value": None}]
    assert without == records[1]
