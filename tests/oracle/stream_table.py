"""Joins of a stream with a table or a global table: a record meets the row that the table has when the record comes.

The records contain the name of the field with the key of a global table. Only records cause emissions, so the
timestamps of emissions are known, even after deletions from the table.
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
