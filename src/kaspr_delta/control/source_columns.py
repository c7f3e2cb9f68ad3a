"""What is told of tables that others write and that cannot be read as they are."""

from __future__ import annotations

from kaspr_delta.plan.definition.typed_tables import TypedPlan
from kaspr_delta.spec.column_types import column_problems, key_problems
from kaspr_delta.spec.ddl import Column
from kaspr_delta.storage.namespace import Namespace

_TURN_ON = "ALTER TABLE {} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)"


def does_not_tell(table: str, namespace: Namespace) -> str:
    """That the change feed of a table is off, and who turns it on how."""
    statement = _TURN_ON.format(namespace.identifier(table))
    return f"'{table}' does not tell what changes in it: its owner has to run {statement}"


def column_reasons(table: str, typed: TypedPlan, columns: tuple[Column, ...]) -> str:
    """Why the columns that were found cannot be those of the plan; nothing if they can."""
    problems = (*column_problems(columns, written=False), *key_problems(columns, typed.key))
    return "; ".join(f"{message} in '{table}' ({hint})" for message, hint in problems)
