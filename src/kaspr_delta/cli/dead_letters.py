"""``kaspr-delta dead-letters``: print the dead letters, or retry them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer

from kaspr_delta.cli.completion import complete_resource
from kaspr_delta.cli.deployed import ProfileOption, TargetOption
from kaspr_delta.cli.operation import operate
from kaspr_delta.cli.progress import note, print_lines, warn
from kaspr_delta.cli.target import Target
from kaspr_delta.errors import UsageError


def dead_letters(
    target: Target,
    resource: Annotated[
        str | None,
        typer.Option("--resource", metavar="KIND/NAME", help="Only of this one.", autocompletion=complete_resource),
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Put their records on their topics and channels again, as they were.")
    ] = False,
    only_failed: Annotated[
        bool, typer.Option("--only-failed", help="Retry each record only for the resource that failed on it.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Retry: do not ask, also where others get records a second time.")
    ] = False,
    deployed: TargetOption = None,
    profile: ProfileOption = None,
) -> None:
    """Print the records and rows that could not be processed, with the reason, as JSON lines, oldest first; or retry.

    A retry puts each record once more on the topic or channel that it came from, and removes the dead letter. All
    readers of the topic or channel get the record; the command names those that would get it a second time, and asks.
    With --only-failed they skip the record. Rows of tables are tried when they change. In a folder it needs no Spark.
    The next run takes the records up.

    With --target the job for operations that was deployed to that target does it. The command waits for it and prints
    its output.

    For example:

        kaspr-delta dead-letters
        kaspr-delta dead-letters --resource agent/process-enriched-orders --retry --only-failed
        kaspr-delta dead-letters --target prod
    """
    if (only_failed or yes) and not retry:
        raise UsageError(
            f"{'--only-failed' if only_failed else '--yes'} is for --retry: add that, or leave both out to see letters"
        )
    if deployed is not None:
        chosen = {"--retry": retry, "--only-failed": only_failed, "--yes": yes}
        options = [*(["--resource", resource] if resource else []), *(name for name, on in chosen.items() if on)]
        operate(deployed, target.app, profile, ["dead-letters", *options])
        return
    if retry:
        _retry(target, resource, only_failed=only_failed, yes=yes)
        return
    application = target.open()
    letters = application.dead_letters(resource)
    if resource is not None and not letters:
        application.check([resource])
    print_lines(letters)


def _retry(target: Target, resource: str | None, *, only_failed: bool, yes: bool) -> None:
    from kaspr_delta.control.dead_letters import MOST_RETRIED

    letters = target.open().letters()
    chosen = letters.newest(MOST_RETRIED, resource)
    if not only_failed and not yes:
        _ask(letters.seen_twice(chosen))
    retried = letters.retry(chosen, only_failed=only_failed)
    alone = ", each only for the resource that failed on it" if only_failed else ""
    for origin, records in retried.records.items():
        typer.echo(f"{origin.kind} {origin.name}: {records} record{'' if records == 1 else 's'} put there again{alone}")
    for letter in retried.lost:
        warn(f"{letter.resource}, key {letter.key}: its record is gone, or a newer one came since")
    rest = Counter((one.resource, letters.why_not(one)) for one in chosen if letters.origin_of(one) is None)
    for (name, why), count in sorted(rest.items()):
        warn(f"{name}: {count} cannot be retried by themselves. {why}")
    if not chosen:
        note("there are no dead letters")


def _ask(seen_twice: Sequence[str]) -> None:
    """Ask whether others may get records a second time. Raises UsageError without a terminal, and Abort for no."""
    if not seen_twice:
        return
    if not sys.stdin.isatty():
        msg = f"{'; '.join(seen_twice)}: add --only-failed to retry each record only for the resource that failed on it"
        raise UsageError(f"{msg}, or --yes to put it there for all")
    for sentence in seen_twice:
        warn(f"{sentence}.")
    note("With --only-failed, each record is retried only for the resource that failed on it.")
    typer.confirm("Put the records there for all?", abort=True, err=True)
