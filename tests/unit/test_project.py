from __future__ import annotations

import re
from pathlib import Path

import pytest

from kaspr_delta.cli import application

ROOT = Path(__file__).parents[2]


def test_the_page_of_commands_names_every_command() -> None:
    listed = set(re.findall(r"\| `kaspr-delta ([a-z-]+)", (ROOT / "docs" / "commands.md").read_text()))
    names = {info.name for info in application.registered_commands}
    assert listed == names


def test_the_packages_drawn_in_architecture_md_are_those_of_the_source() -> None:
    drawn = set(re.findall(r"^ +([a-z_]+)/ ", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE))
    package = ROOT / "src" / "kaspr_delta"
    rooms = {folder.parent.name for folder in package.rglob("__init__.py")} - {package.name}
    assert drawn == rooms


def test_every_test_named_in_scenarios_md_exists() -> None:
    named = set(re.findall(r"`(test_\w+|tests/acceptance/[\w-]+)`", (ROOT / "tests" / "scenarios.md").read_text()))
    files = [*(ROOT / "tests").rglob("test_*.py")]
    written = {name for file in files for name in re.findall(r"(?m)^def (test_\w+)", file.read_text())}
    cases = {f"tests/acceptance/{folder.name}" for folder in (ROOT / "tests" / "acceptance").iterdir()}
    assert named - written - cases == set()
    assert len(named) > 40


def test_every_module_that_reads_a_clock_is_listed_in_clocks_md() -> None:
    package, page = ROOT / "src" / "kaspr_delta", (ROOT / "docs" / "design" / "clocks.md").read_text()
    reads = re.compile(r"datetime\.now\(|\btime\.time\b|time_ns\(|current_timestamp\(")
    reading = {file.relative_to(package).as_posix() for file in package.rglob("*.py") if reads.search(file.read_text())}
    assert {file for file in reading if f"`{file}`" not in page} == set()
    named = set(re.findall(r"`([a-z_/]+\.py)`", page))
    assert {file for file in named if not file.startswith("test_") and not (package / file).exists()} == set()
    tests = {file.name for file in (ROOT / "tests").rglob("test_*.py")}
    assert {file for file in named if file.startswith("test_")} <= tests


def test_no_test_replaces_what_all_threads_use_of_the_module_time() -> None:
    """A watch thread that an earlier test started sleeps, too: without a pause it would take all memory."""
    replaces = re.compile(r"""(?:setattr|patch(?:\.object)?)\(\s*(?:"(?:[\w.]+\.)?time\.\w+"|(?:\w+\.)*time,\s*")""")
    replacing = {file.name for file in (ROOT / "tests").rglob("*.py") if replaces.search(file.read_text())}
    assert replacing == set()


PUBLIC_OF_SPARK = {
    "pyspark",
    "pyspark.errors",
    "pyspark.sql",
    "pyspark.sql.functions",
    "pyspark.sql.streaming.query",
    "pyspark.sql.types",
    "pyspark.sql.window",
    "delta",
}


def test_nothing_private_of_spark_is_used() -> None:
    """Parts of Spark that are not documented may differ on a Databricks runtime."""
    private = re.compile(r"\._(?:jvm|jdf|jsc|jsparkSession|sc|options)\b|\b(?:sparkContext|SparkContext|DeltaTable)\b")
    imported = re.compile(r"(?m)^\s*(?:from|import) ((?:pyspark|delta)\b[\w.]*)")
    for file in (ROOT / "src").rglob("*.py"):
        text = file.read_text()
        assert set(imported.findall(text)) <= PUBLIC_OF_SPARK, file
        of_delta_rs = "deltalake" in text
        assert [found for found in private.findall(text) if not (of_delta_rs and found == "DeltaTable")] == [], file


def test_every_make_target_is_documented() -> None:
    text = (ROOT / "Makefile").read_text()
    phony = next(line for line in text.splitlines() if line.startswith(".PHONY:")).split()[1:]
    targets = re.findall(r"^([a-z0-9-]+):(.*)", text, re.MULTILINE)
    assert [name for name, line in targets if " ## " not in line] == []
    assert sorted(name for name, _ in targets) == sorted(phony)


@pytest.mark.parametrize("lock", [*ROOT.glob("*.lock"), *ROOT.glob("lanes/*.lock")], ids=lambda lock: lock.name)
def test_a_lock_file_has_hashes_and_no_urls_or_paths(lock: Path) -> None:
    text = lock.read_text()
    assert "--hash=sha256:" in text
    assert not re.search(r"(?m)https?:|file:|--(extra-)?index-url|--find-links|^-e ", text)
