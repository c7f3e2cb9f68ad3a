"""Counts of a stream's records by key and window: a table for each window, because a manifest declares one window.

The retention of windows in Kafka Streams (``retention_ms``) is ignored: a table without ``expires`` keeps all windows.
"""

from __future__ import annotations

from tests.oracle.aggregate import count
from tests.oracle.compare import Rule
from tests.oracle.family import Family
from tests.oracle.outputs import TableOutput

FAMILY = Family(
    shape="windowed-count",
    types=("tumbling", "hopping"),
    inputs={"left": "topic"},
    output=TableOutput(count),
    rule=Rule(ordered=False, times="always"),
    parameters={"size_ms": None, "advance_ms": None, "grace_ms": None, "emit": "update"},
)
