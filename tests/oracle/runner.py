"""Runs all files of a directory: cases of one shape together, whatever file they come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kaspr_delta.errors import KasprError
from tests.oracle import foreign_key
from tests.oracle.case import Case, CasesError, load
from tests.oracle.compare import Difference

Driver = Callable[[Sequence[Case], Path, int], list[Difference | None]]

# By shape and type; a shape without a driver fails.
DRIVERS: Mapping[tuple[str, str], Driver] = {
    ("fk-table-table", name): foreign_key.differences for name in foreign_key.TYPES
}


@dataclass
class FileReport:
    """What became of a file's cases. ``lines`` say what failed."""

    name: str
    passed: int = 0
    failed: int = 0
    lines: list[str] = field(default_factory=list)

    def fail(self, line: str) -> None:
        """Count a failure. What several cases have in common is said once."""
        self.failed += 1
        if line not in self.lines:
            self.lines.append(line)


def run(directory: Path, warehouses: Path, seed: int) -> list[FileReport]:
    """Run the cases of a directory's JSON files, on warehouses in another."""
    reports: list[FileReport] = []
    driven: dict[Driver, list[tuple[FileReport, Case]]] = {}
    for file in sorted(directory.glob("*.json")):
        report = FileReport(file.name)
        reports.append(report)
        try:
            cases = load(file)
        except CasesError as error:
            report.fail(str(error))
            continue
        for case in cases:
            driver = DRIVERS.get((case.shape, case.type))
            if driver is None:
                report.fail(f"shape {case.shape} is not run yet")
            else:
                driven.setdefault(driver, []).append((report, case))
    for driver, cases_of_reports in driven.items():
        _drive(driver, cases_of_reports, warehouses, seed)
    return reports


def _drive(driver: Driver, driven: Sequence[tuple[FileReport, Case]], warehouses: Path, seed: int) -> None:
    try:
        found = driver([case for _, case in driven], warehouses / driver.__module__, seed)
    except KasprError as error:
        for report, _ in driven:
            report.fail(f"the run broke off: {error}")
        return
    for (report, case), difference in zip(driven, found, strict=True):
        if difference is None:
            report.passed += 1
        else:
            report.fail(f"{case.name}: {difference}")
