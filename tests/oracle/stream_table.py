"""Joins of a stream with a table or a global table: a record meets the row that is there when it comes.

The name of the field that holds a global table's key travels in the records. Only records cause emissions, so their
timestamps are known, whatever was deleted from the table.
"""

from __future__ import annotations

from tests.oracle.compare import Rule
from tests.oracle.family import Family
from tests.oracle.outputs import JoinOutput

FAMILIES = tuple(
    Family(
        shape=shape,
        types=("inner", "left"),
        inputs={"left": "topic", "right": "table"},
        output=JoinOutput(has_result=False),
        rule=Rule(stream=True, times="always"),
        sides_in_order=True,
    )
    for shape in ("stream-table", "stream-globaltable")
)
