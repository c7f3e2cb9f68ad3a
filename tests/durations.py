"""The time that each test file takes, printed by `make test DURATIONS=1`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

# Files that take less are summed up in one line.
_SHOWN = 1.0


class FileDurations:
    """A plugin of pytest that sums the seconds of setup, call and teardown of all tests of a file."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase of a test."""
        self.seconds[report.location[0]] += report.duration  # type: ignore[assignment]  # seconds, not a count

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the files, the slowest first."""
        terminalreporter.section("seconds by file")
        short = 0.0
        for file, seconds in self.seconds.most_common():
            if seconds < _SHOWN:
                short += seconds
            else:
                terminalreporter.write_line(f"{seconds:8.1f}  {file}")
        terminalreporter.write_line(f"{short:8.1f}  all other files")
