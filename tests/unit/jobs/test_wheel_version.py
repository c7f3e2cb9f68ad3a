"""The wheel gets the time of its code's last change, from which the CLI makes its version."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / "resources" / "wheel.py"
COMMITTED = 1_700_000_000
LATER = 1_800_000_000


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, with a new project as its root."""
    spec = importlib.util.spec_from_file_location("wheel", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "src" / "code.py").write_text("1")
    return module


def git(folder: Path, *arguments: str) -> None:
    date = dict.fromkeys(("GIT_COMMITTER_DATE", "GIT_AUTHOR_DATE"), f"{COMMITTED} +0000")
    who = ("-c", "user.name=ann", "-c", "user.email=ann@example.com")
    subprocess.run(["git", *who, *arguments], cwd=folder, env={**os.environ, **date}, check=True, capture_output=True)  # noqa: S603, S607


def test_committed_code_is_as_old_as_its_commit(wheel: ModuleType, tmp_path: Path) -> None:
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    assert wheel.age_of_code() == COMMITTED * 10**9
    (tmp_path / "README.md").write_text("not code")
    assert wheel.age_of_code() == COMMITTED * 10**9


def test_code_that_was_changed_is_as_old_as_the_change(wheel: ModuleType, tmp_path: Path) -> None:
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    (tmp_path / "src" / "code.py").write_text("2")
    os.utime(tmp_path / "src" / "code.py", (LATER, LATER))
    assert wheel.age_of_code() == LATER * 10**9


def test_without_git_code_is_as_old_as_its_newest_file(
    wheel: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    os.utime(tmp_path / "src" / "code.py", (LATER, LATER))
    assert wheel.age_of_code() == LATER * 10**9
