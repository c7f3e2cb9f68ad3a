"""The verbs of folders: one on this machine, and one in a bucket of obstore's memory."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kaspr_delta.errors import AlreadyRunningError, SetupError
from kaspr_delta.storage.folders import Folder, LocalFolder, create_once, discard
from kaspr_delta.storage.heartbeat import Lease
from tests.buckets import KINDS, folder_of_kind


@pytest.fixture(params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    return folder_of_kind(request.param, tmp_path / "a", monkeypatch)


def test_files_are_written_listed_read_and_removed(folder: Folder) -> None:
    assert (folder.name, folder.names(), folder.has_folder("."), folder.has_file("x")) == ("a", [], False, False)
    folder.make()
    inner = folder / "inner"
    inner.make()
    folder.write("x", b"1")
    first = folder.stamp("x")
    folder.write("x", b"22")
    inner.write("y", b"3")
    assert folder.stamp("x") != first
    assert sorted(folder.names()) == ["inner", "x"]
    assert (folder.read("x"), folder.read("inner/y"), inner.names()) == (b"22", b"3", ["y"])
    assert (folder.has_file("inner/y"), folder.has_folder("inner"), folder.has_folder("inn")) == (True, True, False)
    folder.write("inner/z", b"4")
    assert [sorted(folder.stamps("inner", name)) for name in ("", "y", "z")] == [["y", "z"], ["z"], []]
    assert folder.stamps("inner")["y"].identity == inner.stamp("y").identity
    inner.remove("z")
    inner.remove("y")
    inner.remove("y")
    for read in (inner.read, inner.stamp, inner.open):
        with pytest.raises(FileNotFoundError):
            read("y")
    folder.remove_all()
    assert folder.names() == []


def test_a_kill_leaves_of_a_table_that_is_removed_nothing_or_an_older_version(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [f"_delta_log/{version:020}.json" for version in range(3)] + ["rows.parquet"]
    folder.make()
    (folder / "_delta_log").make()
    for name in files:
        folder.write(name, b"1")
    monkeypatch.setattr("kaspr_delta.storage.folders._AT_ONCE", 1)
    calls = []

    def killed(*given: object) -> None:
        calls.append(given)
        if folder.is_here or len(calls) == 2:
            raise KeyboardInterrupt
        delete(*given)

    delete: Any = obstore.delete
    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", killed)
        patched.setattr("obstore.delete", killed)
        with pytest.raises(KeyboardInterrupt):
            folder.remove_table()
    assert sorted(folder.files()) == ([] if folder.is_here else [*files[:2], "rows.parquet"])
    folder.remove_table()
    assert folder.names() == []


def test_a_file_is_created_once(folder: Folder) -> None:
    folder.make()
    assert folder.write_if_absent("x", b"1")
    assert not folder.write_if_absent("x", b"2")
    assert folder.read("x") == b"1"
    assert create_once(folder, "y", b"1")
    assert not create_once(folder, "y", b"2")


def test_a_store_that_overwrites_is_refused(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(folder), "write_if_absent", lambda *_: True)
    with pytest.raises(SetupError, match="a store without conditional PUT, where commits would be lost"):
        create_once(folder, "x", b"1")


def test_parquet_is_written_in_parts_and_read_in_parts(folder: Folder) -> None:
    rows = pa.table({"n": [1, 2, 3]})
    with folder.writing("rows.parquet") as file, pq.ParquetWriter(file, rows.schema) as writer:
        writer.write_table(rows)
        writer.write_table(rows)
    with folder.open("rows.parquet") as file:
        assert pq.ParquetFile(file).metadata.num_rows == 6
    assert pq.read_table(io.BytesIO(folder.read("rows.parquet"))).num_rows == 6


@pytest.mark.parametrize("size", [0, 1, 20 << 20])
def test_a_file_of_any_size_is_copied_in_parts_of_few_bytes(folder: Folder, size: int) -> None:
    content, at = os.urandom(size), 1_700_000_000_123_456_789
    folder.write_parts("a b/c=%20/ü", [content[: size // 2], content[size // 2 :]], at)
    assert folder.files()["a b/c=%20/ü"].size == size
    parts = list(folder.parts("a b/c=%20/ü"))
    assert b"".join(parts) == content
    if folder.is_here:
        assert max(map(len, parts), default=0) <= 8 << 20
        assert folder.files() == {"a b/c=%20/ü": (size, at)}
    folder.write_parts("a b/c=%20/ü", [b"1"], at)
    folder.write_parts("d", [b"2"], at)
    assert {name: file.size for name, file in folder.files().items()} == {"a b/c=%20/ü": 1, "d": 1}
    with pytest.raises(FileNotFoundError):
        list(folder.parts("nothing"))


def test_a_file_whose_parts_end_in_an_error_is_not_there(folder: Folder) -> None:
    def parts() -> Iterator[bytes]:
        yield b"1" * (20 << 20)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        folder.write_parts("x", parts(), 0)
    assert folder.files() == {}


def test_a_lease_is_held_once(folder: Folder) -> None:
    def lease() -> Lease:
        return Lease(folder, "lock.json", "join/orders", "s", seconds=0.5, every=0.05, settle=0.01)

    with lease().held():
        with pytest.raises(AlreadyRunningError, match="already runs"), lease().held():
            pytest.fail("two hold it")
        assert folder.names() == ["lock.json"]
    with lease().held():
        assert folder.names() == ["lock.json"]
    assert folder.names() == []


def test_what_cannot_be_removed_is_an_error_unless_nobody_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "rows").touch()

    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    folder = LocalFolder(tmp_path) / "table"
    with monkeypatch.context() as patched:
        patched.setattr("os.unlink", refused)
        with pytest.raises(PermissionError):
            folder.remove_all()
        discard(folder)
    assert folder.has_file("rows")
    with monkeypatch.context() as patched:
        patched.setattr("os.unlink", refused)
        with pytest.raises(PermissionError):
            folder.remove_table()
    assert not folder.has_folder(".")  # a table is gone at once, and its files with the next one
    assert [*tmp_path.rglob("rows")]
    for _ in range(2):
        folder.remove_table()
        folder.remove_all()
    assert [*tmp_path.iterdir()] == []
