from __future__ import annotations

from pathlib import Path

import pytest

from tests.durations import FileDurations

FILE = """
import time, pytest

pytestmark = pytest.mark.process

@pytest.mark.spark
def test_with_spark(): time.sleep(0.2)

def test_without_spark(): time.sleep(0.2)
"""


def run(folder: Path, name: str, durations: FileDurations) -> int:
    (folder / "test_a.py").write_text(FILE)
    # The one plugin collects all garbage of this process five times.
    plugins = ["-p", "no:cacheprovider", "-p", "no:unraisableexception"]
    options = [*plugins, "--config-file=/dev/null", "--import-mode=importlib", f"--rootdir={folder}"]
    return pytest.main([str(folder / "test_a.py"), "-k", name, *options], plugins=[durations])


@pytest.mark.parametrize(
    ("name", "most", "most_on_spark", "code"),
    [
        ("without_spark", 9, 0, pytest.ExitCode.OK),
        ("without_spark", 0.1, 9, pytest.ExitCode.TESTS_FAILED),
        ("with_spark", 0, 9, pytest.ExitCode.OK),
        ("with_spark", 9, 0.1, pytest.ExitCode.TESTS_FAILED),
    ],
)
def test_a_run_with_a_file_over_its_budget_fails(  # noqa: PLR0917
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    most: float,
    most_on_spark: float,
    code: int,
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take longer than the run
    assert run(tmp_path, name, FileDurations(most, most_on_spark)) == code
    assert ("too many" in capsys.readouterr().out) is bool(code)
