"""The Databricks CLI's local state of a target, kept apart for each application of one checkout.

The CLI remembers in ``.databricks/bundle/TARGET`` which resources it deployed last, whatever application they were of.
A deployment of another application from the same checkout would take them for resources that left the configuration,
and delete them. So each application gets the files of its own last deployment back before the CLI reads them. The
workspace holds the same files, so nothing is lost where they are missing here.

A command of the CLI reads and writes these files until it ends. So no application gets its files back while a command
for another one is at work, such as the checks of an editor's extension beside a deployment: that command would upload
the files of the other application as its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

from filelock import FileLock

from kaspr_delta.errors import UsageError

# https://github.com/databricks/cli: bundle/env/temp_dir.go, bundle/bundle.go
_CLI_FOLDER = "DATABRICKS_BUNDLE_TMP"
_STATE = ("resources.json", "resources.json.wal", "deployment.json", "sync-snapshots", "terraform")
# Its lines: the application that the files are of, and the processes of the CLI that have loaded it.
_OWNER = "kaspr-application"
_NOBODY = "unknown"
_ASIDE = ".kaspr-delta"
_CLI = "databricks"


def give_back_state(root: Path, target: str, application: str, process: int) -> None:
    """Put the local state of this application in the place where the CLI looks, and the state of others aside.

    ``root`` is the folder of databricks.yml, ``process`` the number of the CLI's process. State without an owner is put
    aside for good. Raises UsageError while another process of the CLI is at work on another application.
    """
    base = Path(os.environ.get(_CLI_FOLDER) or root / ".databricks" / "bundle")
    place, aside = base / target, base / _ASIDE / target
    owner = place / _OWNER
    (base / _ASIDE).mkdir(parents=True, exist_ok=True)
    with FileLock(base / _ASIDE / f"{target}.lock"):
        before, *known = owner.read_text(encoding="utf-8").splitlines() if owner.is_file() else [_NOBODY]
        others = [other for other in known if other != str(process) and _is_cli(other)]
        now = "\n".join((application, str(process), *others))
        if before == application:
            owner.write_text(now, encoding="utf-8")
            return
        if others:
            raise UsageError(
                f"another command of the Databricks CLI is at work on the application {before!r} in this folder"
                f" (process {others[0]}): start this one again when that has ended"
            )
        _move(place, aside / quote(before, safe=""))
        place.mkdir(parents=True, exist_ok=True)
        # Between the two moves: wherever this is interrupted, the owner is right about all that lies there.
        owner.write_text(now, encoding="utf-8")
        _move(aside / quote(application, safe=""), place)


def _is_cli(process: str) -> bool:
    """Whether that process is there and is the CLI. Windows does not say it, so none is there."""
    with contextlib.suppress(OSError):
        return _CLI in Path(f"/proc/{process}/comm").read_text(encoding="utf-8")
    if Path("/proc/self").exists() or (ps := shutil.which("ps")) is None:
        return False
    # The arguments are a list: no shell reads them.
    found = subprocess.run([ps, "-o", "comm=", "-p", process], check=False, capture_output=True, text=True)  # noqa: S603
    return _CLI in found.stdout


def _move(source: Path, target: Path) -> None:
    for name in _STATE:
        if (source / name).exists():
            target.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(target / name, ignore_errors=True)  # a folder does not replace another one
            (source / name).replace(target / name)
