"""``kaspr-delta delete``: remove a resource from the application, and with --purge its data from the warehouse."""

from __future__ import annotations

from typing import Annotated

import typer

from kaspr_delta.cli.completion import complete_kind, complete_name
from kaspr_delta.cli.progress import console
from kaspr_delta.cli.target import Target
from kaspr_delta.plan.definition.waiting import in_words
from kaspr_delta.spec.kinds import kind_called


def delete(
    target: Target,
    kind: Annotated[
        str,
        typer.Argument(
            help="A kind, called as with kubectl: table, kjoin, kaspragents …", autocompletion=complete_kind
        ),
    ],
    name: Annotated[str, typer.Argument(help="The resource's name.", autocompletion=complete_name)],
    purge: Annotated[bool, typer.Option("--purge", help="Delete its tables and state as well, for good.")] = False,  # noqa: FBT002
) -> None:
    """Remove a resource from the applied application; its manifest file stays.

    Resources that need it wait from then on: each is printed. A running `run --continuous` or `serve` stops using it
    within seconds. Its data stay, and are used again if it is applied again; --purge deletes them too.

    For example:

        kaspr-delta delete join orders-products-join
        kaspr-delta delete ktable products --purge
    """
    from kaspr_delta.control.registry import without
    from kaspr_delta.control.resource_status import newly_waiting
    from kaspr_delta.runtime.applying import applied_registry

    full = kind_called(kind)
    registry = applied_registry(target.location, target.app)
    if purge:
        before = registry.documents()
        target.open().delete(kind, name, purge=True)
        after = registry.documents()
    else:
        before, after = registry.change(lambda before: without(before, full, name))
    typer.echo(f'{full.lower()}.kaspr.io "{name}" deleted')
    done = "its data with it" if purge else "its data stay (--purge would delete them too)"
    console().print(done, markup=False, style="dim")
    for ref, reason in newly_waiting(registry.plan(before), registry.plan(after)):
        typer.echo(f"{ref} {in_words(reason)}")
