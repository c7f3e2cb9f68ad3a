"""Runs all files of a directory: cases of one shape together, whatever file they come from."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kaspr_delta.errors import KasprError
from tests.oracle.case import Case, CasesError, load
from tests.oracle.compare import Difference
from tests.oracle.families import FAMILIES
from tests.oracle.known import reason_to_differ
from tests.oracle.modes import differences
from tests.oracle.typed import on_typed_tables

Driver = Callable[[Sequence[Case], Path, int], list[Difference | None]]

# By shape and type; a shape without a driver fails.
DRIVERS: Mapping[tuple[str, str], Driver] = dict.fromkeys(FAMILIES, differences)


@dataclass
class FileReport:
    """The results of a file's cases. ``lines`` has failures, and expected differences, which are not counted."""

    name: str
    passed: int = 0
    failed: int = 0
    lines: list[str] = field(default_factory=list)

    def fail(self, line: str) -> None:
        """Count a failure. Cases with the same line share it."""
        self.failed += 1
        if line not in self.lines:
            self.lines.append(line)

    def count_case(self, case: Case, difference: Difference | None) -> None:
        """Count a case that was run."""
        reason = reason_to_differ(case)
        if difference is None:
            self.passed += 1
        elif reason is None:
            self.fail(f"{case.name}: {difference}")
        else:
            self.lines.append(f"{case.name}: differs as expected: {reason} ({difference})")


def run(directory: Path, warehouses: Path, seed: int, *, typed: bool = False) -> list[FileReport]:
    """Run the cases of a directory's JSON files, on warehouses in another. ``typed``: joins of typed tables only."""
    reports: list[FileReport] = []
    driven: dict[tuple[str, Driver], list[tuple[FileReport, Case]]] = {}
    for file in sorted(directory.glob("*.json")):
        report = FileReport(file.name)
        try:
            cases = on_typed_tables(load(file)) if typed else load(file)
        except CasesError as error:
            report.fail(str(error))
            cases = ()
        if cases or report.failed or not typed:
            reports.append(report)
        for case in cases:
            driver = DRIVERS.get((case.shape, case.type))
            if driver is None:
                report.fail(f"shape {case.shape} of type {case.type} is not run yet")
            else:
                driven.setdefault((case.shape, driver), []).append((report, case))
    for (shape, driver), cases_of_reports in driven.items():
        _drive(driver, cases_of_reports, warehouses / shape, seed)
    return reports


def _drive(driver: Driver, driven: Sequence[tuple[FileReport, Case]], warehouse: Path, seed: int) -> None:
    try:
        found = driver([case for _, case in driven], warehouse, seed)
    except Exception as error:  # noqa: BLE001  the other shapes are run all the same
        is_kaspr_error = isinstance(error, KasprError)
        if not is_kaspr_error:
            traceback.print_exc()
        for report, _ in driven:
            report.fail(f"the run broke off: {error if is_kaspr_error else repr(error)}")
        return
    for (report, case), difference in zip(driven, found, strict=True):
        report.count_case(case, difference)
