"""``kaspr-delta doctor``: check the requirements on this machine."""

from __future__ import annotations

import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import typer

from kaspr_delta.cli.target import Target
from kaspr_delta.errors import SetupError
from kaspr_delta.runtime.java import check_java
from kaspr_delta.runtime.versions import Versions, installed
from kaspr_delta.storage.namespace import Warehouse


def doctor(target: Target) -> None:
    """Check Python, Java, packages, Delta's jars and write access, and say how to mend what is missing.

    The exit code is 1 if something is missing, else 0. Spark is not started.

    For example:

        kaspr-delta doctor
        kaspr-delta doctor --warehouse /data/warehouse
    """
    location = target.location
    checks: dict[str, Callable[[], str]] = {
        "python": lambda: f"{platform.python_version()} ({sys.executable})",
        "java": lambda: f"version {check_java()}",
        "pyspark": lambda: _package("pyspark"),
        "delta-spark": lambda: _package("delta-spark"),
        "delta jars": _jars,
        "versions": _versions,
        "warehouse": lambda: _writable(location),
    }
    failed = False
    for name, check in checks.items():
        try:
            typer.echo(f"ok       {name}: {check()}")
        except SetupError as problem:
            failed = True
            typer.echo(f"missing  {name}: {problem}")
    if failed:
        raise typer.Exit(1)


def _package(name: str) -> str:
    version = installed(name)
    if version is None:
        raise SetupError("not installed: pip install 'kaspr-delta[local]'")
    return version


def _versions() -> str:
    versions = Versions.with_spark(_package("pyspark"))
    return versions.warning or f"{versions}: the tests run on these"


def _jars() -> str:
    version = _package("delta-spark")
    found = list(Path.home().glob(f".ivy2*/jars/io.delta_delta-spark*-{version}.jar"))
    return f"in {found[0].parent}" if found else "not downloaded yet (about 90 MB at the first start, once)"


def _writable(location: Warehouse) -> str:
    if location.is_unity:
        return f"{location.text} (checked when a command runs)"
    folder = Path(location.text).expanduser().absolute()
    try:
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        with tempfile.TemporaryFile(dir=existing):
            return f"{folder} can be written"
    except OSError as error:
        raise SetupError(
            f"{folder} cannot be written ({error.strerror}): choose another folder with --warehouse"
        ) from error
