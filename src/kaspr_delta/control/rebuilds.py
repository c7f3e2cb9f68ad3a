"""States as their logs tell of them: the resources that need a rebuild, and those whose states have another format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kaspr_delta.control.events import COMPARED
from kaspr_delta.engine.batch.checkpoint import NEWEST_START, STATE_FORMAT, Start
from kaspr_delta.engine.batch.migrations import check_format, migrations_from
from kaspr_delta.errors import RebuildNeededError, SetupError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.definition.state_definitions import OTHER_COLUMNS, compared_with, definition_of, rebuild_needed
from kaspr_delta.plan.names import differences_table
from kaspr_delta.spec.kinds import kind_called
from kaspr_delta.storage.layout import EVENTS
from kaspr_delta.storage.native.readable import readable
from kaspr_delta.storage.stored_results import is_to_replace

Query = Callable[[str, str], Sequence[dict[str, Any]]]
"""Returns the rows of a SELECT over a Delta table, which it calls ``t``; none where there is no table."""


def start_in(query: Query, log: str) -> Start | None:
    """The start of the newest checkpoint of a log; None if none has begun."""
    newest = query(log, f"SELECT start FROM t WHERE {NEWEST_START}")  # noqa: S608
    return next((Start.from_json(row["start"]) for row in newest), None)


def _starts(plan: Plan, query: Query, refs: Sequence[ResourceRef]) -> dict[ResourceRef, Start | str]:
    """The starts of those resources that have begun, or the reason why a log cannot be read.

    The logs are asked at once: each may be a statement elsewhere.
    """

    def start_of(ref: ResourceRef) -> Start | str | None:
        return readable(f"the log of {ref}", lambda: start_in(query, plan.log_of(ref)))

    with ThreadPoolExecutor() as at_once:
        found = at_once.map(start_of, refs)
        return {ref: start for ref, start in zip(refs, found, strict=True) if start is not None}


def rebuilds_in(plan: Plan, query: Query) -> dict[ResourceRef, str]:
    """The resources that cannot go on from their states, with the reasons and remedies.

    A resource whose log cannot be read is one of them. Those that the next run rebuilds by itself are not.
    """
    made = {ref: definition_of(plan, ref) for ref in plan.runs if plan.reaction(ref) != "rebuild"}
    starts = _starts(plan, query, [ref for ref, definition in made.items() if definition])
    found = {}
    for ref, start in starts.items():
        if isinstance(start, str):
            found[ref] = (
                f"the log of {ref} cannot be read, the table {plan.log_of(ref)}: {start}. Restore it to an earlier"
                f" version, or let {ref} begin anew: kaspr-delta delete {ref.kind} {ref.name} --purge"
            )
            continue
        error = rebuild_needed(ref, start.definition, made[ref])
        if error is None and is_to_replace(plan, ref):
            error = RebuildNeededError(str(ref), OTHER_COLUMNS)
        if error is not None:
            compared = comparison_in(query, ref, made[ref]) if plan.reaction(ref) == "side-by-side" else ""
            found[ref] = str(error.after(compared))
    return found


def comparison_in(query: Query, ref: ResourceRef, definition: Mapping[str, str]) -> str:
    """The newest comparison of a result with this definition, in words; empty if there is none."""
    if not query(differences_table(ref.name), "SELECT count(*) AS many FROM t"):
        return ""
    events = query(EVENTS, f"SELECT kind, name, message FROM t WHERE reason = '{COMPARED}' ORDER BY at DESC")  # noqa: S608
    mine = (one["message"] for one in events if (one["kind"], one["name"]) == (kind_called(ref.kind), ref.name))
    newest = str(next(mine, ""))
    return newest if newest.startswith(compared_with(definition)) else ""


def migrations_in(plan: Plan, query: Query) -> dict[ResourceRef, str]:
    """The resources whose states have another format, each with the changes by the next run, or why that refuses it.

    Those whose formats cannot be read are among them, with the reasons.
    """
    found = {}
    for ref, start in _starts(plan, query, plan.runs).items():
        if isinstance(start, str):
            found[ref] = f"the format of its state is not known: {start}"
        elif start.format != STATE_FORMAT:
            found[ref] = _next_run(ref, start.format)
    return found


def _next_run(ref: ResourceRef, found: int) -> str:
    try:
        check_format(ref, found)
    except SetupError as refused:
        return f"the next run refuses it: {refused}"
    changes = "; ".join(step.change for step in migrations_from(found))
    return f"the next run migrates its state from format {found} to {STATE_FORMAT}: {changes}"
