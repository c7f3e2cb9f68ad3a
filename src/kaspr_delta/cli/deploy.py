"""``kaspr-delta deploy``: deploy an application with the Databricks CLI."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from kaspr_delta.cli.deployed import ProfileOption
from kaspr_delta.errors import SetupError, UsageError

_BUNDLE = "databricks.yml"
_APPLICATIONS = "bundles"


def deploy(
    application: Annotated[str, typer.Argument(metavar="APP", help="A folder in bundles/, by name or by path.")],
    target: Annotated[str, typer.Option("--target", metavar="TARGET", help="A target of the bundle.")] = "dev",
    profile: ProfileOption = None,
    var: Annotated[
        list[str] | None, typer.Option("--var", metavar="NAME=VALUE", help="A variable of the bundle; may be repeated.")
    ] = None,
) -> None:
    """Deploy an application's schema, volume and jobs: `databricks bundle deploy` for one application.

    It is run where databricks.yml is, and needs the Databricks CLI. The exit code is that of the CLI.

    For example:

        kaspr-delta deploy order-system --target prod --var catalog=main
    """
    folder = _folder(application)
    command = shutil.which("databricks")
    if command is None:
        raise SetupError(
            "the Databricks CLI is not installed, and deploying needs it: see"
            " https://docs.databricks.com/dev-tools/cli/install"
        )
    variables = [f"application={folder}", *(var or ())]
    arguments = ["bundle", "deploy", "--target", target, *(["--profile", profile] if profile else [])]
    arguments += [text for variable in variables for text in ("--var", variable)]
    # The arguments are a list: no shell reads them.
    raise typer.Exit(subprocess.run([command, *arguments], check=False).returncode)  # noqa: S603


def _folder(application: str) -> str:
    """The application as the bundle's variable names it: its folder below ``bundles/``. Raises UsageError."""
    if not Path(_BUNDLE).is_file():
        raise UsageError(f"there is no {_BUNDLE} in {Path.cwd()}: deploy from the folder that holds it")
    path = Path(application)
    name = path.relative_to(_APPLICATIONS) if path.parts[:1] == (_APPLICATIONS,) else path
    if name.is_absolute() or not (_APPLICATIONS / name).exists():
        raise UsageError(f"there is no folder {_APPLICATIONS}/{name}: APP is one of those in {_APPLICATIONS}/")
    return name.as_posix()
