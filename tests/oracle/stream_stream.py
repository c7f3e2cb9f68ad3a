"""Stream-stream joins: a resource for each join window, because a manifest declares one window."""

from __future__ import annotations

from tests.oracle.compare import Rule
from tests.oracle.family import Family
from tests.oracle.outputs import JoinOutput

FAMILY = Family(
    shape="stream-stream",
    types=("inner", "left", "outer"),
    inputs={"left": "topic", "right": "topic"},
    output=JoinOutput(has_result=False),
    rule=Rule(stream=True, times="always"),
    parameters=dict.fromkeys(("before_ms", "after_ms", "grace_ms")),
    sides_in_order=True,
)
