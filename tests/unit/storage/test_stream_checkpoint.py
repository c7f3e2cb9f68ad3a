"""The positions of a stream, read from checkpoints as Spark writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kaspr_delta.storage.folders import LocalFolder
from kaspr_delta.storage.stream_checkpoint import Position, first_needed, positions_in, remove_unfinished


def batch(checkpoint: Path, number: int, *offsets: str, ended: bool = True) -> None:
    for part in ("offsets", "commits"):
        (checkpoint / part).mkdir(exist_ok=True)
    (checkpoint / "offsets" / str(number)).write_text("\n".join(["v1", '{"batchWatermarkMs":0}', *offsets]))
    if ended:
        (checkpoint / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def offset(table: str, version: int, index: int) -> str:
    return json.dumps({"sourceVersion": 1, "reservoirId": table, "reservoirVersion": version, "index": index})


def test_positions_are_those_of_the_last_ended_batch(tmp_path: Path) -> None:
    assert positions_in(LocalFolder(tmp_path)) == ()
    for number in (8, 9, 10):
        batch(tmp_path, number, offset("orders", number, -1), offset("products", 3, 5), "-", ended=number < 10)
    assert positions_in(LocalFolder(tmp_path)) == (
        Position("orders", 9, files=0),
        Position("products", 3, files=6),
        None,
    )
    (tmp_path / "offsets" / "9").unlink()
    assert positions_in(LocalFolder(tmp_path)) == ()


def test_streams_need_what_their_last_batch_has_read(tmp_path: Path) -> None:
    """Of a table the slowest stream counts, of a resource its newest one; a first batch may need everything."""
    assert first_needed(LocalFolder(tmp_path)) == {}
    for resource, name, batches in (
        ("agent-a", "c1", {3: 10, 4: 20}),
        ("agent-a", "c2", {7: 30, 8: 40, 9: 50}),
        ("agent-b", "c1", {0: 60, 1: 70}),
        ("agent-c", "c1", {0: 80}),
    ):
        checkpoint = tmp_path / resource / name
        checkpoint.mkdir(parents=True)
        source = "views" if resource == "agent-c" else "clicks"
        for number, version in batches.items():
            batch(checkpoint, number, offset(source, version, -1), "-", ended=version < 50)
    assert first_needed(LocalFolder(tmp_path)) == {"clicks": 40, "views": 0}
    (tmp_path / "agent-a" / "c3" / "commits").mkdir(parents=True)  # a stream that has not read yet
    assert first_needed(LocalFolder(tmp_path)) == {"clicks": 40, "views": 0}
    (tmp_path / "agent-b" / "c1" / "offsets" / "0").unlink()
    assert first_needed(LocalFolder(tmp_path)) == {"clicks": 0, "views": 0}


def test_a_partly_read_version_does_not_count_as_unread(tmp_path: Path) -> None:
    batch(tmp_path, 0, offset("a", 7, -1), offset("b", 7, 0))
    assert [None if position is None else position.unread for position in positions_in(LocalFolder(tmp_path))] == [7, 8]


@pytest.mark.parametrize(
    ("at", "files", "version", "change_files", "is_read"),
    [
        (8, 0, 7, None, True),
        (7, 2, 7, 2, True),
        (7, 1, 7, 2, False),
        (7, 1, 8, 1, False),
        # Some files of a version without change data are not all of them.
        (7, 0, 7, 0, False),
        (7, 3, 7, 0, False),
        (7, 3, 7, None, False),
    ],
)
def test_a_version_is_read_when_all_its_change_files_are_read(
    at: int, files: int, version: int, change_files: int | None, is_read: bool
) -> None:
    assert Position("a", at, files).has_read(version, change_files) is is_read


def test_only_unfinished_files_of_a_checkpoint_are_removed(tmp_path: Path) -> None:
    remove_unfinished(LocalFolder(tmp_path / "new"))
    batch(tmp_path, 0, offset("orders", 1, -1))
    whole = sorted(tmp_path.rglob("*"))
    for part in ("offsets", "commits"):
        for name in (".1.4be52ff4-279c-457d-a3c4-2a89a9d5b349.tmp", "..1.4be52ff4-279c-457d-a3c4-2a89a9d5b349.tmp.crc"):
            (tmp_path / part / name).touch()
    remove_unfinished(LocalFolder(tmp_path))
    assert sorted(tmp_path.rglob("*")) == whole
