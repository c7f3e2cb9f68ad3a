"""``python -m tests.mutants``: applies each fault to a copy of the tree, and runs the tests that have to find it."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.mutants.faults import ROOT, Fault, load

_RESULTS = ROOT / "build" / "mutants.json"
_NOT_COPIED = shutil.ignore_patterns(".*", "build", "dist", "spark-warehouse", "metastore_db")
# A fault may make a test wait for ever: a test is stopped, and has found the fault, after so many seconds.
_LONGEST_TEST = 300
_FAILED = 1
# The tests that `make test` leaves out.
_LONGER = "slow or further"
_FIRST = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a fault: ``found`` by a test, ``not found``, ``no match`` (of its text) or ``not run``."""

    result: str
    by: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        return {
            "found": f"found by {self.by} in {self.seconds:.0f} s",
            "not found": f"NOT FOUND in {self.seconds:.0f} s",
            "no match": "the text no longer matches",
            "not run": f"the tests did not run: {self.by}",
        }[self.result]


def tried(fault: Fault, tree: Path, *, java: bool) -> Outcome:
    """The outcome of a fault. ``tree`` is a copy of the working tree, and is restored."""
    source = fault.source(tree)
    wrong = fault.applied(source.read_text())
    if wrong is None:
        return Outcome("no match")
    try:
        source.write_text(wrong)
        tests = (*fault.tests, *(fault.java if java else ()))
        outcome = run(tests, tree) if tests else Outcome("not found")
        if java and fault.longer and outcome.result == "not found":
            return run(fault.longer, tree, _LONGER)
        return outcome
    finally:
        shutil.copy2(fault.source(ROOT), source)


def run(tests: Sequence[str], tree: Path, kind: str = "not slow and not further") -> Outcome:
    """Run tests of a copy of the tree, of one kind, until the first one fails."""
    began = time.monotonic()
    options = ("-x", "-q", "-m", kind, "-p", "no:cacheprovider", "-o", f"timeout={_LONGEST_TEST}")
    command = (sys.executable, "-m", "pytest", *options, *(f"tests/{test}" for test in tests))
    # Bytecode of the wrong source must not outlive it.
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    seconds = round(time.monotonic() - began, 1)
    shutil.rmtree(tree / ".hypothesis", ignore_errors=True)
    if done.returncode == 0:
        return Outcome("not found", seconds=seconds)
    failed = _FIRST.search(done.stdout)
    if done.returncode == _FAILED:
        by = failed[1] if failed else "a test that ended the run"
        return Outcome("found", f"{by} (make test-all)" if kind == _LONGER else by, seconds)
    return Outcome("not run", next(reversed((done.stdout + done.stderr).splitlines()), ""), seconds)


def main() -> int:
    """The exit code: 0 if all faults were found."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Which test finds which fault?")
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME", help="faults with these texts in their name")
    parser.add_argument("--no-java", action="store_true", help="only faults that tests without Java find")
    parser.add_argument("--list", action="store_true", help="list the faults, and run nothing")
    parser.add_argument("--unchanged", action="store_true", help="run the tests of the faults without any fault")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="then show what differs from these results")
    parser.add_argument(
        "--results", type=Path, default=_RESULTS, metavar="FILE", help="build/mutants.json if not given"
    )
    options = parser.parse_args()
    faults = [fault for fault in load() if any(text in fault.name or text == fault.room for text in options.only)]
    faults = [fault for fault in faults if fault.tests or not options.no_java]
    if options.list:
        for one in faults:
            print(f"{one.room}: {one.name} ({', '.join((*one.tests, *one.java, *one.longer))})")  # noqa: T201
        return 0
    before = json.loads(options.compare.read_text()) if options.compare else {}
    results: dict[str, dict[str, Any]] = {}
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="kaspr-delta-mutants-") as folder:
        tree = shutil.copytree(ROOT, Path(folder, "tree"), ignore=_NOT_COPIED)
        if options.unchanged:
            every = dict.fromkeys(t for one in faults for t in (*one.tests, *(() if options.no_java else one.java)))
            outcome = run(list(every), tree)
            print(f"without a fault: {outcome}")  # noqa: T201
            return int(outcome.result != "not found")
        for fault in faults:
            outcome = tried(fault, tree, java=not options.no_java)
            print(f"{fault.room}: {fault.name}: {outcome}", flush=True)  # noqa: T201
            counts[outcome.result] += 1
            results[fault.name] = asdict(outcome)
            options.results.parent.mkdir(parents=True, exist_ok=True)
            options.results.write_text(json.dumps(results, indent=1) + "\n")
    print(", ".join(f"{count} {result}" for result, count in counts.items()))  # noqa: T201
    for name in [name for name in results if name in before]:
        was, now = ([found[name][of] for of in ("result", "by")] for found in (before, results))
        if was != now:
            print(f"{name}: {' '.join(was)} -> {' '.join(now)}")  # noqa: T201
    return int(counts["found"] < len(faults))


if __name__ == "__main__":
    sys.exit(main())
