"""Commands of a deployment run without the modules that Windows lacks, and name the encoding of each file.

No machine with Windows runs these tests.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

NOT_ON_WINDOWS = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")
COMMAND = f"import sys; sys.modules.update(dict.fromkeys({NOT_ON_WINDOWS})); from kaspr_delta.cli import main; main()"
JOBS = COMMAND.replace(
    "from kaspr_delta.cli import main; main()",
    "from databricks.bundles.core import Bundle; from kaspr_delta.jobs import load_resources;"
    " print(*load_resources(Bundle(target='prod', variables={'application': 'shop'})).jobs)",
)
# Windows would read and write a file without one by the code page of the machine. Python's own list of time zones is
# plain ASCII.
NAMED_ENCODING = (
    *("-X", "warn_default_encoding"),
    *("-W", "error::EncodingWarning"),
    *("-W", "ignore::EncodingWarning:zoneinfo._tzpath"),
)


def run(folder: Path, program: str, *arguments: str) -> str:
    """Run a program in a folder. Returns its output."""
    command = [sys.executable, *NAMED_ENCODING, "-c", program, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that ``init`` made."""
    folder = tmp_path_factory.mktemp("repository")
    run(folder, COMMAND, "init", "shop")
    return folder / "shop"


@pytest.mark.parametrize(
    ("command", "shown"), [("validate", "no findings"), ("plan", "application shop"), ("deploy", "Usage")]
)
def test_a_repository_is_made_and_looked_at(repository: Path, command: str, shown: str) -> None:
    assert shown in run(repository, COMMAND, command, "--help" if command == "deploy" else "bundles/shop")


def test_the_jobs_of_a_bundle_are_made(repository: Path) -> None:
    assert "shop" in run(repository, JOBS).split()
