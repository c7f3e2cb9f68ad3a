"""The command ``kaspr-delta``: one function per command, errors as one clear message, exit codes 0, 1 and 2.

A ``run`` until quiet that is interrupted ends with 128 and the signal. ``deploy`` and ``purge`` end with the exit code
of the Databricks CLI if that fails.
"""

from __future__ import annotations

import sys

import typer

from kaspr_delta.cli.command import Command
from kaspr_delta.cli.dead_letters import dead_letters
from kaspr_delta.cli.demo import demo
from kaspr_delta.cli.deploy import deploy, purge
from kaspr_delta.cli.deployed import logs
from kaspr_delta.cli.doctor import doctor
from kaspr_delta.cli.init import init
from kaspr_delta.cli.operation import expanded
from kaspr_delta.cli.options import on_target, with_target
from kaspr_delta.cli.plan import plan
from kaspr_delta.cli.progress import note
from kaspr_delta.cli.records import consume, produce
from kaspr_delta.cli.resources import apply, delete, describe, get
from kaspr_delta.cli.run import rebuild, run
from kaspr_delta.cli.serve import serve
from kaspr_delta.cli.status import status
from kaspr_delta.cli.table import export, table
from kaspr_delta.cli.validate import print_findings, schema, validate
from kaspr_delta.errors import KasprError, ManifestError, UsageError

application = typer.Typer(
    name="kaspr-delta",
    callback=on_target,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
COMMANDS = (
    *(demo, init, validate, plan, run),
    *(apply, get, describe, delete),
    *(produce, consume, table, export, status, dead_letters, rebuild),
    *(serve, deploy, logs, purge, schema, doctor),
)
_WITHOUT_WAREHOUSE = (init, deploy, logs, purge)
for command in COMMANDS:
    shown = command if command in _WITHOUT_WAREHOUSE else with_target(command)
    application.command(command.__name__.replace("_", "-"), cls=Command)(shown)


def main() -> None:
    """Run the command line. A failure is one sentence; the exit code is 2 for a wrong call, else 1."""
    try:
        application()
    except ManifestError as error:
        print_findings(error.findings, to_stderr=True)
        sys.exit(1)
    except KasprError as error:
        note(str(error), style="", event="error")
        sys.exit(2 if isinstance(error, UsageError) else 1)


def task() -> None:
    """Run the command line as a task of a Databricks job.

    Errors are raised, so that Databricks shows them. SystemExit(0) is not: Databricks counts a task that raises it as
    failed.
    """
    try:
        application(expanded(sys.argv[1:]))
    except SystemExit as end:
        if end.code:
            raise
