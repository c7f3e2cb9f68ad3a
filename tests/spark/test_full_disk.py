"""A disk that is full during a batch: the error is one sentence, and results are right after space is freed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.errors import ResourceFailedError
from tests.manifests import opened
from tests.small_disk import SmallDisk, small_disk
from tests.spark import shapes, test_crash
from tests.spark.channels import values_of
from tests.spark.killing import run_others

# Kilobytes that are left: none, enough for the first writes of a batch, or for nearly all.
KILOBYTES_LEFT = (0, 8, 24, 48, 96, 160, 256)
ORDERS = Path(__file__).parents[2] / "bundles" / "order-system"
JOIN = "join/orders-products-join"

FILES_AND_TASKS = """
KasprApp/files:
  topics:
    lines:
      files: {{path: {folder}/lines, format: json, key: id}}
    written:
      files: {{path: {folder}/written, format: json}}
KasprAgent/pass-on:
  input: {{topic: {{name: lines}}}}
  output: {{topics: [{{name: written}}]}}
  processors:
    pipeline: [same]
    operations: [{{name: same, map: {{python: "def same(value): return value"}}}}]
KasprTask/ring:
  processors:
    pipeline: [ring, send]
    operations:
      - {{name: ring, map: {{python: "import uuid\n\ndef ring(): return str(uuid.uuid4())"}}}}
      - {{name: send, topicSend: {{name: rung}}}}
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as found:
        yield found


def run_on(app: Application, disk: SmallDisk, kilobytes: int, only: str) -> bool:
    """Run a resource with this much space left, and free the disk. Returns whether the run failed."""
    disk.fill_except_for(kilobytes)
    try:
        app.run(only=[only])
    except ResourceFailedError as error:
        failed = str(error)
    else:
        return False
    finally:
        disk.free()
    assert failed.startswith(f"{only} failed: the disk of {disk.folder / 'wh'} is full: free space, then run again")
    return True


def run_with_growing_space(
    app: Application, disk: SmallDisk, victim: str, kilobytes_left: tuple[int, ...] = KILOBYTES_LEFT
) -> None:
    """Run a resource several times, with more space left each time. The first run must fail."""
    run_others(app, victim)
    failures = [left for left in kilobytes_left if run_on(app, disk, left, victim)]
    assert failures[0] == 0


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("victim", test_crash.WRITES)
def test_a_full_disk_neither_loses_nor_doubles_rows_of_the_order_system(
    spark: SparkSession, tmp_path: Path, disk: SmallDisk, victim: str
) -> None:
    warehouses = [disk.folder / "wh", tmp_path / "undisturbed"]
    app, other = (Application.open(ORDERS, warehouse=warehouse, spark=spark) for warehouse in warehouses)
    for wave in (1, 2, 3):
        for one in (app, other):
            test_crash.write_wave(one, wave)
        run_with_growing_space(app, disk, victim)
        for one in (app, other):
            one.run()
        assert test_crash.outcome(app) == test_crash.outcome(other), wave


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("victim", shapes.victims())
def test_a_full_disk_neither_loses_nor_doubles_rows_of_any_shape(
    spark: SparkSession, tmp_path: Path, disk: SmallDisk, victim: str
) -> None:
    """The disk is full in the first load and in a wave of changes. More waves follow."""
    shape = test_crash.ShapeOnTwoWarehouses(spark, tmp_path, victim, warehouse=disk.folder / "wh")
    for wave in (1, 2):
        shape.wave(wave, quiet=False)
        run_with_growing_space(shape.app, disk, victim)
        shape.app.run()
    shape.wave(3)
    shape.wave(4)
    shape.assert_equal_outcomes()


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path, disk: SmallDisk) -> Callable[[], Application]:
    (disk.folder / "lines").mkdir()
    text = FILES_AND_TASKS.format(folder=disk.folder)
    return lambda: opened(spark, tmp_path, "files", text, disk.folder / "wh")


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("victim", ["topic/lines", "agent/pass-on", "topic/written"])
def test_a_full_disk_neither_loses_nor_doubles_rows_of_files(
    files: Callable[[], Application], disk: SmallDisk, victim: str
) -> None:
    app = files()
    sent: list[str] = []
    for wave in range(3):
        new = [f"{wave}-{number}" for number in range(20)]
        lines = "".join(f'{{"id": "{one}"}}\n' for one in new)
        (disk.folder / f"wave-{wave}").write_text(lines)
        (disk.folder / f"wave-{wave}").rename(disk.folder / "lines" / f"{wave}.json")
        sent += new
        run_with_growing_space(app, disk, victim)
        app.run()
        assert [value["id"] for value in values_of(app, "lines")] == sent
        files_out = (disk.folder / "written").glob("batch=*/part-*")
        lines_out = [json.loads(line) for file in files_out for line in file.read_text().splitlines()]
        assert sorted(line["value"]["id"] for line in lines_out) == sorted(sent)


@pytest.mark.slow
def test_a_task_on_a_full_disk_sends_once_for_each_committed_run(
    files: Callable[[], Application], disk: SmallDisk
) -> None:
    app = files()
    failures = [left for left in KILOBYTES_LEFT if run_on(app, disk, left, "task/ring")]
    assert failures
    app.run(only=["task/ring"])
    rung = values_of(app, "rung")
    assert len(KILOBYTES_LEFT) - len(failures) < len(rung) == len(set(rung)) <= len(KILOBYTES_LEFT) + 1
