"""Foreign-key joins of two tables: the left values contain the name of the foreign key's field."""

from __future__ import annotations

from tests.oracle.family import Family
from tests.oracle.outputs import JoinOutput

FAMILY = Family(
    shape="fk-table-table",
    types=("inner", "left"),
    inputs={"left": "table", "right": "table"},
    output=JoinOutput(has_result=True),
)
