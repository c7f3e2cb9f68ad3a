"""The Databricks CLI's local state of a target, kept apart for each application of one checkout.

The CLI remembers in ``.databricks/bundle/TARGET`` which resources it deployed last, whatever application they were of.
A deployment of another application from the same checkout would take them for resources that left the configuration,
and delete them. So each application gets the files of its own last deployment back before the CLI reads them. The
workspace holds the same files, so nothing is lost where they are missing here.

Commands of the CLI write these files too after they have read the bundle: a deployment when it ends, others when they
ask the workspace for its state. So no application gets its files back while such a command works on another one, as
when an editor's extension checks the bundle beside a deployment: it would get, and upload, the files of the wrong one.
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
# The CLI's commands that write the state after Python has made the resources.
_WRITES = {"deploy", "destroy", "deployment", "generate", "open", "plan", "run", "summary"}


def give_back_state(root: Path, target: str, application: str, process: int) -> None:
    """Put the local state of this application in the place where the CLI looks, and the state of others aside.

    ``root`` is the folder of databricks.yml, ``process`` the number of the CLI's process. State without an owner is put
    aside for good. Raises UsageError while a command of the CLI that writes state works on another one.
    """
    base = Path(os.environ.get(_CLI_FOLDER) or root / ".databricks" / "bundle")
    place, aside = base / target, base / _ASIDE / target
    owner = place / _OWNER
    (base / _ASIDE).mkdir(parents=True, exist_ok=True)
    with FileLock(base / _ASIDE / f"{target}.lock"):
        lines = owner.read_text(encoding="utf-8").splitlines() if owner.is_file() else []
        before, *known = lines or [_NOBODY]
        others = [other for other in known if other != str(process) and _writes_state(other)]
        now = "\n".join((application, str(process), *others))
        if before == application:
            _replace(owner, now)
            return
        if others:
            raise UsageError(
                f"the Databricks CLI works on the application {before!r} in this folder (process {others[0]}): start"
                " this command again when that one has ended"
            )
        _move(place, aside / quote(before, safe=""))
        place.mkdir(parents=True, exist_ok=True)
        # Between the two moves: wherever this is interrupted, the owner is right about all that lies there.
        _replace(owner, now)
        _move(aside / quote(application, safe=""), place)


def _writes_state(process: str) -> bool:
    """Whether that process is there, and is a command of the CLI that writes the state. On Windows none is seen."""
    words: list[str] = []
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{process}/cmdline").read_text("utf-8", "replace").split("\0")
    if not Path("/proc/self").exists() and (ps := shutil.which("ps")) is not None:
        # The arguments are a list: no shell reads them.
        asked = [ps, "-o", "args=", "-p", process]
        words = subprocess.run(asked, check=False, capture_output=True, text=True).stdout.split()  # noqa: S603
    return any(_CLI in word for word in words) and not _WRITES.isdisjoint(words)


def _replace(file: Path, text: str) -> None:
    new = file.with_name(f"{file.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(file)


def _move(source: Path, target: Path) -> None:
    for name in _STATE:
        if (source / name).exists():
            target.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(target / name, ignore_errors=True)  # a folder does not replace another one
            (source / name).replace(target / name)
