"""``kaspr-delta dead-letters``: what could not be processed, and trying it again."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from kaspr_delta.cli.completion import complete_resource
from kaspr_delta.cli.options import AppOption, Target, WarehouseOption, open_application
from kaspr_delta.cli.progress import note
from kaspr_delta.errors import UsageError
from kaspr_delta.serde.json_lines import json_line
from kaspr_delta.storage.namespace import Warehouse

# Letters that are retried at once.
_AT_ONCE = 10_000


def dead_letters(
    context: typer.Context,
    resource: Annotated[
        str | None,
        typer.Option("--resource", metavar="KIND/NAME", help="Only of this one.", autocompletion=complete_resource),
    ] = None,
    retry: Annotated[  # noqa: FBT002
        bool, typer.Option("--retry", help="Put their records on their topics and channels again, as they were.")
    ] = False,
    warehouse: WarehouseOption = None,
    app: AppOption = None,
) -> None:
    """Print what could not be processed, and why, as JSON lines, oldest first; or try it again.

    A retry puts each record once on the topic or channel that it came from, for all who read that, and removes the
    dead letter. Rows of tables are tried when they change. It needs no Spark, and the next run takes the records up.

    For example:

        kaspr-delta dead-letters
        kaspr-delta dead-letters --resource agent/process-enriched-orders --retry
    """
    if retry:
        _retry(Target.of(context, warehouse, app), resource)
        return
    for letter in open_application(context, warehouse, app).dead_letters(resource):
        typer.echo(json_line(letter))


def _retry(target: Target, resource: str | None) -> None:
    from kaspr_delta.runtime.applying import applied_plan
    from kaspr_delta.runtime.dead_letters import DeadLetters
    from kaspr_delta.storage.delta_rs import DeltaRs

    place = Warehouse(target.place)
    if place.is_unity:
        msg = "dead letters can be retried on this machine's disk only: put the records on their topics with produce"
        raise UsageError(msg)
    plan = applied_plan(place, target.app)
    if plan is None:
        return
    letters = DeadLetters(DeltaRs(place.namespace(plan.schema)), plan)
    chosen = letters.newest(_AT_ONCE, resource)
    retried = letters.retry(chosen)
    for origin, records in retried.records.items():
        typer.echo(f"{origin.kind} {origin.name}: {records} record{'' if records == 1 else 's'} put there again")
    for letter in retried.lost:
        note(f"{letter.resource}, key {letter.key}: its record is gone, or a newer one came since", style="yellow")
    rest = Counter((one.resource, letters.why_not(one)) for one in chosen if letters.origin_of(one) is None)
    for (name, why), count in sorted(rest.items()):
        note(f"{name}: {count} cannot be retried by themselves. {why}", style="yellow")
    if not chosen:
        note("there are no dead letters")
