"""Messages about tables of others that cannot be read in their present form."""

from __future__ import annotations

from kaspr_delta.plan.definition.typed_tables import TypedPlan
from kaspr_delta.spec.column_types import column_problems, key_problems
from kaspr_delta.spec.ddl import Column
from kaspr_delta.storage.namespace import Namespace

_TURN_ON = "ALTER TABLE {} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)"


def does_not_tell(table: str, namespace: Namespace) -> str:
    """The message that a table's change feed is off, with the statement by which its owner turns it on."""
    statement = _TURN_ON.format(namespace.identifier(table))
    return f"the change data feed of '{table}' is off: its owner has to run {statement}"


def column_reasons(table: str, typed: TypedPlan, columns: tuple[Column, ...]) -> str:
    """The reasons why the columns that were found do not fit the plan; empty if they fit."""
    problems = (*column_problems(columns, written=False), *key_problems(columns, typed.key))
    return "; ".join(f"{message} in '{table}' ({hint})" for message, hint in problems)
