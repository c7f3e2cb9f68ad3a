"""The login of the Databricks CLI for a target of a bundle, for this process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from kaspr_delta.errors import SetupError

# Where the CLI finds a bundle: in a folder that is named, or in the nearest one with such a file.
_ROOT = "DATABRICKS_BUNDLE_ROOT"
_BUNDLES = ("databricks.yml", "databricks.yaml", "bundle.yml", "bundle.yaml")
_SHOW = "import json, os; print(json.dumps(dict(os.environ)))"


def take_login(target: str, profile: str | None) -> bool:
    """Give the environment variables of this process the CLI's login for a target; whether there is one.

    The CLI finds the workspace by databricks.yml, by profiles and by the environment, in an order of its own, and hands
    its login to a command in variables that all tools of Databricks read. There is none away from a bundle, and without
    the CLI. Raises SetupError with the CLI's message if it has no login, as for an unknown target.
    """
    command = shutil.which("databricks")
    if command is None or not _in_bundle():
        return False
    options = ["--target", target, *(["--profile", profile] if profile else [])]
    # The arguments are a list: no shell reads them.
    done = subprocess.run(  # noqa: S603
        [command, "bundle", "run", *options, "--", sys.executable, "-I", "-c", _SHOW],
        check=False,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    if done.returncode:
        raise SetupError(f"the Databricks CLI has no login for target {target!r}: {done.stderr.strip()}")
    handed = json.loads(done.stdout)
    for name in os.environ.keys() - handed.keys():  # those of another login
        del os.environ[name]
    os.environ.update(handed)
    return True


def _in_bundle() -> bool:
    here = Path.cwd()
    return bool(os.environ.get(_ROOT)) or any(
        (at / name).is_file() for at in (here, *here.parents) for name in _BUNDLES
    )
