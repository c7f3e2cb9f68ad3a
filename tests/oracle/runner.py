"""Runs all files of a directory: cases of one shape together, whatever file they come from."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from kaspr_delta.errors import KasprError
from tests.oracle.case import Case, CasesError, load
from tests.oracle.compare import Difference
from tests.oracle.families import FAMILIES, on_typed_tables
from tests.oracle.modes import differences

# By pattern of a case's name or of one of its tags: cases that may differ from Kafka Streams, and the reason. They are
# run, and listed if they differ.
KNOWN_DIFFERENCES: Mapping[str, str] = {
    "quirk-emit on close with the default retention*": (
        "Kafka Streams forgets windows that are older than its store's retention; here every window is emitted"
    ),
    "store-dependent": "what Kafka Streams answers depends on the kind of its state store",
}


def reason_to_differ(case: Case) -> str | None:
    """The reason why a case may differ, or None if it must not."""
    names = (case.name, *case.tags)
    return next(
        (why for pattern, why in KNOWN_DIFFERENCES.items() if any(fnmatchcase(name, pattern) for name in names)), None
    )


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


def run(
    directory: Path, warehouses: Path, seed: int, *, typed: bool = False, on_spark: bool = True
) -> list[FileReport]:
    """Run the cases of a directory's JSON files, on warehouses in another. ``typed``: joins of typed tables only.

    ``on_spark`` is as in ``Laboratory``.
    """
    reports: list[FileReport] = []
    of_shapes: dict[str, list[tuple[FileReport, Case]]] = {}
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
            if (case.shape, case.type) in FAMILIES:
                of_shapes.setdefault(case.shape, []).append((report, case))
            else:
                report.fail(f"shape {case.shape} of type {case.type} is not run yet")
    for shape, reported in of_shapes.items():
        _run_shape(reported, warehouses / shape, seed, on_spark=on_spark)
    return reports


def _run_shape(reported: Sequence[tuple[FileReport, Case]], warehouse: Path, seed: int, *, on_spark: bool) -> None:
    try:
        found = differences([case for _, case in reported], warehouse, seed, on_spark=on_spark)
    except Exception as error:  # noqa: BLE001  the other shapes are run all the same
        is_kaspr_error = isinstance(error, KasprError)
        if not is_kaspr_error:
            traceback.print_exc()
        for report, _ in reported:
            report.fail(f"the run broke off: {error if is_kaspr_error else repr(error)}")
        return
    for (report, case), difference in zip(reported, found, strict=True):
        report.count_case(case, difference)
