"""The uses that the functions of an agent or task make of a table."""

from __future__ import annotations

from kaspr_delta.functions.table_use import TableUse, table_uses
from kaspr_delta.plan.definition.resources import AgentPlan, TablePlan, TaskPlan


def uses_of(pipeline: AgentPlan | TaskPlan, name: str, table: TablePlan | None) -> frozenset[TableUse]:
    """The uses of a table that the pipeline gets by ``name``. ``table`` is its plan; None if it is not declared."""
    if isinstance(pipeline, TaskPlan) or table is None or table.is_foreign:
        return frozenset({"reads"})  # a write is refused
    return frozenset[TableUse]().union(
        *(
            table_uses(function, given.parameter, windows=table.window is not None)
            for operation in pipeline.pipeline
            for given in operation.tables
            if given.table == name
            for function in (operation.function, *(operation.send.functions if operation.send else ()))
            if function is not None
        )
    )


def may_write(agent: AgentPlan, name: str, table: TablePlan | None) -> bool:
    """Whether an agent writes a table, or may do so: the source of its functions does not always tell.

    True of a table that is not declared: its agent waits.
    """
    return table is None or any("writes" in use for use in uses_of(agent, name, table))
