"""A transfer that ends anywhere leaves whole versions of tables, and the next one makes the rest."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from kaspr_delta.errors import SetupError
from kaspr_delta.storage.copying.check import check_files
from kaspr_delta.storage.copying.contents import Contents
from kaspr_delta.storage.copying.transfer import Transfer
from kaspr_delta.storage.folders import Folder, LocalFolder
from kaspr_delta.storage.native.log_files import commit_file, versions_in
from tests.buckets import KINDS, folder_of_kind

SECOND = 1_000_000_000


class KilledError(Exception):
    pass


@pytest.fixture
def source(tmp_path: Path) -> LocalFolder:
    """A schema with two tables, whose commits take turns, a stream, locks and hidden files."""
    folder = LocalFolder(tmp_path / "source")
    for version in range(5):
        commit(folder, "left", version, at=2 * version)
        commit(folder, "right", version, at=2 * version + 1)
    put(folder, "left/_delta_log/00000000000000000003.checkpoint.parquet", b"left-0 left-1 left-2 left-3")
    put(folder, "left/_delta_log/_last_checkpoint", b"3")
    put(folder, "left/_commits/0-1.parquet", b"removed")
    put(folder, "_kaspr/checkpoints/join-both/c1/offsets/0", b"left 4, right 4")
    put(folder, "_kaspr/locks/running-join-both.lock", b"")
    put(folder, "left/_delta_log/.00000000000000000003.json.crc", b"x")
    put(folder, "left/.unfinished/rows", b"x")
    return folder


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    return folder_of_kind(request.param, tmp_path / "target", monkeypatch)


def put(folder: Folder, name: str, content: bytes, at: int = 0) -> None:
    folder.write_parts(name, [content], at * SECOND)


def commit(folder: Folder, table: str, version: int, at: int, life: str = "") -> None:
    """A commit, whose content names all files of its version."""
    files = [f"{table}{life}-{number}" for number in range(version + 1)]
    put(folder, f"{table}/{files[-1]}", files[-1].encode(), at)
    put(folder, f"{table}/{commit_file(version)}", " ".join(files).encode(), at)


def transfer(source: Folder, target: Folder, goes_on: Callable[[], None] = lambda: None) -> list[int]:
    """Transfer what is there now, and return the bytes that were told."""
    told: list[int] = []
    Transfer(source, target, Contents.of(source), goes_on, told.append).run()
    return told


def assert_whole(target: Folder) -> None:
    """Each version that can be read has all its files."""
    for table in target.names():
        files = set(target.names(table))
        for name in target.names(f"{table}/_delta_log"):
            if name[0].isdigit():
                assert set(target.read(f"{table}/_delta_log/{name}").decode().split()) <= files, (table, name)
        versions = sorted(versions_in(target / table))
        assert versions == list(range(len(versions)))


def assert_copied(source: Folder, target: Folder) -> None:
    names = [*Contents.of(source).files]
    assert sorted(target.files()) == sorted(names)
    assert all(source.read(name) == target.read(name) for name in names)
    check_files(Contents.of(source), Contents.of(source), Contents.of(target))


def killed_after(files: int) -> Callable[[], None]:
    count = itertools.count()

    def goes_on() -> None:
        if next(count) >= files:
            raise KilledError

    return goes_on


def test_all_is_copied_but_locks_and_hidden_files_with_the_times_where_a_folder_takes_them(
    source: LocalFolder, target: Folder
) -> None:
    told = transfer(source, target)
    assert_copied(source, target)
    assert not any("lock" in name or "/." in name for name in target.files())
    assert sum(told) == Contents.of(source).bytes
    assert len(told) == len(Contents.of(source).files)
    if target.is_here:
        assert target.files() == Contents.of(source).files


def test_data_comes_first_then_checkpoints_then_commits_by_time_then_the_rest(
    source: LocalFolder, target: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    write = type(target).write_parts

    def noted(folder: Folder, name: str, parts: Iterable[bytes], at: int) -> None:
        write(folder, name, parts, at)
        written.append(name)

    monkeypatch.setattr(type(target), "write_parts", noted)
    transfer(source, target)
    kinds = ["json" if name.endswith(".json") else "checkpoint" if ".checkpoint." in name else "" for name in written]
    kinds = ["rest" if "_kaspr" in name or "_last" in name else kind for name, kind in zip(written, kinds, strict=True)]
    assert [kind for kind, _ in itertools.groupby(kinds)] == ["", "checkpoint", "json", "rest"]
    commits = [(int(name[-25:-5]), name[0]) for name in written if name.endswith(".json")]
    assert [{*pair} for pair in zip(commits[::2], commits[1::2], strict=True)] == [
        {(version, "l"), (version, "r")} for version in range(5)
    ]


@pytest.mark.parametrize("files", range(0, 24, 3))
def test_a_transfer_that_is_killed_leaves_whole_versions_and_goes_on(
    source: LocalFolder, target: Folder, files: int
) -> None:
    with pytest.raises(KilledError):
        transfer(source, target, killed_after(files))
    assert_whole(target)
    transfer(source, target)
    assert_copied(source, target)


def test_a_transfer_that_goes_on_writes_no_file_of_a_table_twice(
    source: LocalFolder, target: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    transfer(source, target)
    written: list[str] = []
    monkeypatch.setattr(type(target), "write_parts", lambda _, name, *__: written.append(name))
    transfer(source, target)
    assert sorted(written) == ["_kaspr/checkpoints/join-both/c1/offsets/0", "left/_delta_log/_last_checkpoint"]


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_to_the_source_between_kills_the_copy_is_the_source(
    source: LocalFolder, target: Folder, seed: int
) -> None:
    dice = random.Random(seed)  # noqa: S311
    newest = {"left": 4, "right": 4}
    for step in range(6):
        with contextlib.suppress(KilledError):
            transfer(source, target, killed_after(dice.randrange(20)))
        assert_whole(target)
        table = dice.choice(("left", "right"))
        match dice.choice(("commit", "replace", "remove a file", "replace a stream")):
            case "commit":
                newest[table] += 1
                commit(source, table, newest[table], at=100 + step)
                # It names files of an earlier life, too.
                for name in source.read(f"{table}/{commit_file(newest[table])}").decode().split():
                    put(source, f"{table}/{name}", name.encode())
            case "replace":
                (source / table).remove_all()
                newest[table] = dice.choice((0, 2, 4))
                for version in range(newest[table] + 1):
                    commit(source, table, version, at=100 + step, life=chr(ord("a") + step))
            case "remove a file":
                put(source, f"{table}/gone", b"")
                source.remove(f"{table}/gone")
            case _:
                put(source, "_kaspr/checkpoints/join-both/c1/offsets/0", str(step).encode())
    transfer(source, target)
    assert_copied(source, target)


def test_a_file_that_vanishes_or_grows_is_an_error_that_names_the_table(source: LocalFolder, target: Folder) -> None:
    contents = Contents.of(source)
    put(source, "left/left-0", b"more than was listed")
    with pytest.raises(SetupError, match="left/left-0 has 20 bytes instead of 6: run the command again"):
        Transfer(source, target, contents, lambda: None, lambda _: None).run()
    source.remove("left/left-0")
    with pytest.raises(SetupError, match="'left' changed while it was copied: stop what writes it"):
        Transfer(source, target, contents, lambda: None, lambda _: None).run()
    assert_whole(target)


def test_a_source_that_changed_and_a_copy_that_differs_are_found(source: LocalFolder, target: Folder) -> None:
    transfer(source, target)
    before = Contents.of(source)
    target.remove("left/left-0")
    with pytest.raises(SetupError, match="the copy differs in left/left-0"):
        check_files(before, before, Contents.of(target))
    commit(source, "right", 5, at=99)
    with pytest.raises(SetupError, match="'right' changed while it was copied"):
        check_files(before, Contents.of(source), Contents.of(target))


def test_a_clock_that_was_set_back_changes_no_order_of_commits(source: LocalFolder) -> None:
    commit(source, "left", 5, at=1)
    assert [one.version for one in Contents.of(source).commits if one.table == "left"] == [*range(6)]
