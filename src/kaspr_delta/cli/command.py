"""Runs every command: handles Ctrl-C, reports errors of a disk, and redirects the output of native libraries."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import typer
from typer.core import TyperCommand

from kaspr_delta.cli.interruption import ended_by_interrupt
from kaspr_delta.cli.target import Target
from kaspr_delta.disk_errors import disk_problem
from kaspr_delta.errors import KasprError, SetupError
from kaspr_delta.extras import required

if TYPE_CHECKING:
    from kaspr_delta.storage.namespace import Warehouse

_STDERR = 2


class Command(TyperCommand):
    """A command of ``kaspr-delta``."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Run the command.

        Raises SetupError for an error of a disk, also if Spark or delta-rs reported it, and for a package of an extra
        that is not installed.
        """
        location = Target.of(ctx).location
        try:
            with required(), ended_by_interrupt(), _native_messages_in(location):
                return super().invoke(ctx)
        except (KasprError, ImportError):
            raise
        except BaseException as error:  # also the panics of delta-rs
            problem = disk_problem(error, Path(location.folder) if location.is_here else None)
            if problem is None:
                raise
            raise SetupError(problem) from error


@contextlib.contextmanager
def _native_messages_in(location: Warehouse) -> Iterator[None]:
    """Keep ``sys.stderr``, and let native libraries and processes print to the log of the warehouse if it exists.

    delta-rs prints a panic with its stack, and raises an error that says the same.
    """
    shown = sys.stderr
    if not _is_standard_error(shown):
        yield
        return
    with contextlib.ExitStack() as held:
        kept = held.enter_context(
            os.fdopen(os.dup(_STDERR), "w", encoding=shown.encoding, errors=shown.errors, buffering=1)
        )
        shown.flush()
        with contextlib.suppress(OSError):  # the warehouse does not exist yet, or cannot be written
            log = location.log_file
            if log is not None and (location.store is not None or location.schemas()):
                os.dup2(held.enter_context(log.open("ab")).fileno(), _STDERR)
        sys.stderr = kept
        try:
            yield
        finally:
            sys.stderr = shown
            os.dup2(kept.fileno(), _STDERR)


def _is_standard_error(stream: TextIO) -> bool:
    """Whether a stream is the standard error of the process; tests and notebooks replace it."""
    with contextlib.suppress(OSError):
        return stream.fileno() == _STDERR
    return False
