"""The positions of a stream, read from checkpoints as Spark writes them."""

from __future__ import annotations

import json
from pathlib import Path

from kaspr_delta.storage.stream_checkpoint import Position, positions_in, remove_unfinished


def batch(checkpoint: Path, number: int, *offsets: str, ended: bool = True) -> None:
    for part in ("offsets", "commits"):
        (checkpoint / part).mkdir(exist_ok=True)
    (checkpoint / "offsets" / str(number)).write_text("\n".join(["v1", '{"batchWatermarkMs":0}', *offsets]))
    if ended:
        (checkpoint / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def offset(table: str, version: int, index: int) -> str:
    return json.dumps(
        {
            "sourceVersion": 1,
            "reservoirId": table,
            "reservoirVersion": version,
            "index": index,
            "isStartingVersion": False,
        }
    )


def test_positions_are_those_of_the_last_ended_batch(tmp_path: Path) -> None:
    assert positions_in(tmp_path) == ()
    for number in (8, 9, 10):
        batch(tmp_path, number, offset("orders", number, -1), offset("products", 3, 5), ended=number < 10)
    assert positions_in(tmp_path) == (Position("orders", 9, files=0), Position("products", 3, files=6))


def test_a_partly_read_version_does_not_count_as_unread(tmp_path: Path) -> None:
    batch(tmp_path, 0, offset("a", 7, -1), offset("b", 7, 0))
    assert [None if position is None else position.unread for position in positions_in(tmp_path)] == [7, 8]


def test_an_unread_source_has_no_position(tmp_path: Path) -> None:
    batch(tmp_path, 0, offset("a", 7, -1), "-")
    assert positions_in(tmp_path) == (Position("a", 7, files=0), None)


def test_removed_offsets_give_no_positions(tmp_path: Path) -> None:
    batch(tmp_path, 0, offset("a", 7, -1))
    (tmp_path / "offsets" / "0").unlink()
    assert positions_in(tmp_path) == ()


def test_a_version_is_read_when_all_its_change_files_are_read() -> None:
    assert Position("a", 8, files=0).has_read(7, change_files=None)
    assert Position("a", 7, files=2).has_read(7, change_files=2)
    assert not Position("a", 7, files=1).has_read(7, change_files=2)
    assert not Position("a", 7, files=1).has_read(8, change_files=1)


def test_some_read_files_of_a_version_without_change_data_are_not_all() -> None:
    assert not Position("a", 7, files=0).has_read(7, change_files=0)
    assert not Position("a", 7, files=3).has_read(7, change_files=0)
    assert not Position("a", 7, files=3).has_read(7, change_files=None)


def test_only_unfinished_files_of_a_checkpoint_are_removed(tmp_path: Path) -> None:
    batch(tmp_path, 0, offset("orders", 1, -1))
    whole = sorted(tmp_path.rglob("*"))
    for part in ("offsets", "commits"):
        for name in (".1.4be52ff4-279c-457d-a3c4-2a89a9d5b349.tmp", "..1.4be52ff4-279c-457d-a3c4-2a89a9d5b349.tmp.crc"):
            (tmp_path / part / name).touch()
    remove_unfinished(tmp_path)
    assert sorted(tmp_path.rglob("*")) == whole


def test_remove_unfinished_accepts_a_missing_checkpoint(tmp_path: Path) -> None:
    remove_unfinished(tmp_path / "new")
