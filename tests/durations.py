"""The time that each test file takes, printed by `make test DURATIONS=1`, and the most that it may take."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

# Files that take less are summed up in one line.
_SHOWN = 1.0


class FileDurations:
    """A plugin of pytest that sums the seconds of setup, call and teardown of all tests of a file.

    The run fails if a file takes more than ``most``, or more than ``most_on_spark`` if a test of it starts Spark.
    """

    def __init__(self, most: float = 10, most_on_spark: float = 60) -> None:
        self.seconds: Counter[str] = Counter()
        self._most = most
        self._most_on_spark = most_on_spark
        self._on_spark: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase of a test."""
        file = report.location[0]
        self.seconds[file] += report.duration  # type: ignore[assignment]  # seconds, not a count
        if "spark" in report.keywords:
            self._on_spark.add(file)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run if a file took too long."""
        if session.exitstatus == pytest.ExitCode.OK and any(map(self._excess, self.seconds)):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the files, the slowest first."""
        terminalreporter.section("seconds by file")
        short = 0.0
        for file, seconds in self.seconds.most_common():
            if excess := self._excess(file):
                terminalreporter.write_line(f"{seconds:8.1f}  {file}: {excess:.1f} too many", red=True)
            elif seconds < _SHOWN:
                short += seconds
            else:
                terminalreporter.write_line(f"{seconds:8.1f}  {file}")
        terminalreporter.write_line(f"{short:8.1f}  all other files")

    def _excess(self, file: str) -> float:
        return max(0, self.seconds[file] - (self._most_on_spark if file in self._on_spark else self._most))
