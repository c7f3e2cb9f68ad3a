"""The package as a wheel, installed in new environments."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Environment = Callable[..., Path]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark these tests as slow: making an environment takes minutes."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


def run(*command: object, cwd: Path = ROOT) -> str:
    """Run a command; its standard output. If the command fails, the test fails with all output."""
    # Commands are lists written in these tests.
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=cwd, check=False)  # noqa: S603
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, as the bundle builds it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture
def environment(tmp_path: Path, wheel: Path) -> Environment:
    """A function that installs the wheel, with extras, in a new environment. It returns the environment's Python.

    ``of`` is the Python that the environment is made with, ``also`` are packages that replace others.
    """

    def made(*extras: str, of: str = sys.executable, also: Sequence[str] = ()) -> Path:
        uv = Path(sys.executable).with_name("uv")
        python = tmp_path / "venv" / "bin" / "python"
        run(uv, "venv", "--quiet", "--python", of, tmp_path / "venv")
        run(uv, "pip", "install", "--quiet", "--python", python, f"{wheel}[{','.join(extras)}]" if extras else wheel)
        if also:
            run(uv, "pip", "install", "--quiet", "--python", python, *also)
        return python

    return made
