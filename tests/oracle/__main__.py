"""``python -m tests.oracle DIR``: run recorded cases against the engine; the last line counts them."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tests.few_rows import session_for_few_rows
from tests.oracle.runner import run

VISIBLE = Path(__file__).parent / "visible"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases of a directory. The exit code is 0 if cases pass and none fails, 2 without a directory, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description="Run recorded Kafka Streams cases.")
    parser.add_argument("directory", nargs="?", type=Path, default=VISIBLE, help="where the *.json files are")
    parser.add_argument("--seed", type=int, default=0, help="of the random batch cuts")
    parser.add_argument("--typed", action="store_true", help="only joins of two tables, which have columns here")
    parser.add_argument("--without-spark", action="store_true", help="as far as that goes")
    chosen = parser.parse_args(arguments)
    if not chosen.directory.is_dir():
        parser.error(f"{chosen.directory} is no directory")
    with tempfile.TemporaryDirectory() as folder:
        on_spark = not chosen.without_spark
        if on_spark:
            session_for_few_rows(Path(folder) / "spark.log")
        reports = run(chosen.directory, Path(folder), chosen.seed, typed=chosen.typed, on_spark=on_spark)
    screen = Console(markup=False, highlight=False, soft_wrap=True)
    for report in reports:
        screen.print(f"{report.name}: {report.passed} passed, {report.failed} failed")
        for line in report.lines:
            screen.print(f"  {line}")
    passed, failed = (sum(getattr(report, count) for report in reports) for count in ("passed", "failed"))
    screen.print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
