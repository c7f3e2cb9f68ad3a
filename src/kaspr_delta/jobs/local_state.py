"""The Databricks CLI's local state of a target, kept apart for each application of one checkout.

The CLI remembers in ``.databricks/bundle/TARGET`` which resources it deployed last, whatever application they were of.
A deployment of another application from the same checkout would take them for resources that left the configuration,
and delete them. So each application gets the files of its own last deployment back before the CLI reads them. The
workspace holds the same files, so nothing is lost where they are missing here.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from urllib.parse import quote

# https://github.com/databricks/cli: bundle/env/temp_dir.go, bundle/bundle.go
_CLI_FOLDER = "DATABRICKS_BUNDLE_TMP"
_STATE = ("resources.json", "resources.json.wal", "deployment.json", "sync-snapshots", "terraform")
_OWNER = "kaspr-application"
_NOBODY = "unknown"


def give_back_state(root: Path, target: str, application: str) -> None:
    """Put the local state of this application in the place where the CLI looks, and the state of others aside.

    ``root`` is the folder of databricks.yml. State without an owner is put aside for good.
    """
    base = Path(os.environ.get(_CLI_FOLDER) or root / ".databricks" / "bundle")
    place = base / target
    owner = place / _OWNER
    before = owner.read_text(encoding="utf-8") if owner.is_file() else _NOBODY
    if before != application:
        aside = base / ".kaspr-delta" / target
        _move(place, aside / quote(before, safe=""))
        place.mkdir(parents=True, exist_ok=True)
        # Between the two moves: wherever this is interrupted, the owner is right about all that lies there.
        owner.write_text(application, encoding="utf-8")
        _move(aside / quote(application, safe=""), place)


def _move(source: Path, target: Path) -> None:
    for name in _STATE:
        if (source / name).exists():
            target.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(target / name, ignore_errors=True)  # a folder does not replace another one
            (source / name).replace(target / name)
