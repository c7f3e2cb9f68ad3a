"""Tables that hold the last record of each key of a stream.

Kafka Streams makes them from a stream (``toTable``) or directly from a topic (``builder.table``). Manifests have one
form for both: ``from: {topic: …}`` with ``toTable``.
"""

from __future__ import annotations

from tests.oracle.compare import Rule
from tests.oracle.family import Family
from tests.oracle.outputs import TableOutput
from tests.oracle.wrapping import unwrapped

FAMILY = Family(
    shape="to-table",
    types=("stream", "table"),
    inputs={"left": "topic"},
    output=TableOutput(unwrapped),
    rule=Rule(ordered=False),
)
