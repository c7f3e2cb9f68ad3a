"""Old commits of a table are removed, and what is left reads the same, also after a kill between two deletions."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest

from kaspr_delta.storage.folders import LocalFolder
from kaspr_delta.storage.layout import CHECKPOINT_INTERVAL, SYSTEM, TOPICS
from kaspr_delta.storage.native.delta_rs import DeltaRs, append_to
from kaspr_delta.storage.native.kept import OpenTable
from kaspr_delta.storage.native.log_cleaning import clean_log, has_long_log
from kaspr_delta.storage.native.log_files import commit_file, commit_of, newest_version, oldest_version
from kaspr_delta.storage.tables import Transaction
from tests.folders import folder_of

TABLE = "log__a"
COMMITS = 2 * CHECKPOINT_INTERVAL + 20
LAST_CHECKPOINT = 2 * CHECKPOINT_INTERVAL - 1
KEPT, DAY = 600.0, 24 * 3_600.0


class KilledError(Exception):
    pass


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> DeltaRs:
    """A table with a row and a transaction for each of many commits, all of them made yesterday."""
    from kaspr_delta.storage.namespace import LocalNamespace

    delta = DeltaRs(LocalNamespace(tmp_path_factory.mktemp("old"), "shop", "shop"))
    delta.ensure(TABLE, SYSTEM[TOPICS])
    for number in range(1, COMMITS + 1):
        append(delta, number)
    for version in range(COMMITS + 1):
        age(delta, version, DAY)
    return delta


def append(delta: DeltaRs, number: int) -> bool:
    """Append a row in the transaction of this number. Returns False if the table has it already."""
    return append_to(OpenTable(delta.open(TABLE)), pa.table({"name": [str(number)]}), Transaction("batches", number))


def age(delta: DeltaRs, version: int, seconds: float) -> None:
    at = time.time() - seconds
    os.utime(folder_of(delta.namespace, TABLE) / commit_file(version), (at, at))


def copied(old: DeltaRs, delta: DeltaRs) -> LocalFolder:
    return LocalFolder(shutil.copytree(folder_of(old.namespace, TABLE), folder_of(delta.namespace, TABLE)))


def names(delta: DeltaRs, version: int | None = None) -> set[int]:
    return {int(row["name"]) for row in delta.rows(TABLE, version=version)}


def assert_is_whole(delta: DeltaRs, first: int, last: int = COMMITS) -> None:
    """The table has all rows, its versions from the first one on can be read, and it goes on without doubled rows."""
    folder = delta.folder(TABLE)
    assert (newest_version(folder), names(delta)) == (last, set(range(1, last + 1)))
    for version in (first, last - 1):
        assert names(delta, version) == set(range(1, version + 1))
    assert not append(delta, last)
    assert append(delta, last + 1)
    assert names(delta) == set(range(1, last + 2))


def test_commits_before_the_last_checkpoint_are_removed_once_they_are_old(old: DeltaRs, delta: DeltaRs) -> None:
    folder = copied(old, delta)
    assert has_long_log(folder)
    clean_log(folder, KEPT)
    kept = sorted(file.name for file in (folder.path / "_delta_log").iterdir() if file.name[:1] == "0")
    assert kept == sorted(
        [f"{LAST_CHECKPOINT:020}.checkpoint.parquet", *(f"{v:020}.json" for v in range(LAST_CHECKPOINT, COMMITS + 1))]
    )
    assert not has_long_log(folder)
    assert oldest_version(folder) == delta.versions(TABLE).start == LAST_CHECKPOINT
    assert commit_of(folder, LAST_CHECKPOINT - 1) is None
    assert_is_whole(delta, LAST_CHECKPOINT)


@pytest.mark.parametrize("deletions", [0, 1, 2, 3, 40, CHECKPOINT_INTERVAL, LAST_CHECKPOINT, LAST_CHECKPOINT + 1])
def test_a_cleaning_that_is_killed_leaves_a_whole_table_and_the_next_one_ends_it(
    old: DeltaRs, delta: DeltaRs, monkeypatch: pytest.MonkeyPatch, deletions: int
) -> None:
    """There are as many deletions as commits before the last checkpoint, and that of the checkpoint before it."""
    folder, unlink, done = copied(old, delta), Path.unlink, list[Path]()

    def dying(path: Path, missing_ok: bool = False) -> None:
        if len(done) == deletions:
            raise KilledError
        done.append(path)
        unlink(path, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", dying)
        if deletions <= LAST_CHECKPOINT:
            with pytest.raises(KilledError):
                clean_log(folder, KEPT)
        else:
            clean_log(folder, KEPT)
    assert len(done) == deletions
    assert names(delta, oldest_version(folder)) == set(range(1, oldest_version(folder) + 1))
    assert_is_whole(delta, LAST_CHECKPOINT)
    clean_log(folder, KEPT)
    assert oldest_version(folder) == LAST_CHECKPOINT
    assert_is_whole(delta, LAST_CHECKPOINT, COMMITS + 1)


@pytest.mark.parametrize("young", [0, CHECKPOINT_INTERVAL - 2, CHECKPOINT_INTERVAL + 7, LAST_CHECKPOINT])
def test_young_commits_stay_and_each_of_their_versions_can_be_read(old: DeltaRs, delta: DeltaRs, young: int) -> None:
    """A commit may have an older time than the one before it: its clock was set back. Both stay."""
    folder = copied(old, delta)
    for version in range(young, COMMITS + 1, 2):
        age(delta, version, KEPT / 2)
    clean_log(folder, KEPT)
    first = max(version for version in (0, CHECKPOINT_INTERVAL - 1, LAST_CHECKPOINT) if version <= young)
    assert oldest_version(folder) == first
    assert_is_whole(delta, young)


@pytest.mark.parametrize("harm", ["no last checkpoint", "an earlier last checkpoint", "half a checkpoint"])
def test_a_log_begins_with_a_checkpoint_that_is_whole_and_that_readers_find(
    old: DeltaRs, delta: DeltaRs, harm: str
) -> None:
    folder = copied(old, delta)
    noted, newest = folder.path / "_delta_log" / "_last_checkpoint", f"{LAST_CHECKPOINT:020}.checkpoint.parquet"
    match harm:
        case "no last checkpoint":
            noted.unlink()
        case "an earlier last checkpoint":
            noted.write_text(f'{{"version": {CHECKPOINT_INTERVAL - 1}, "size": 1}}')
        case _:
            (folder.path / "_delta_log" / newest).write_bytes(b"PAR1")
    clean_log(folder, KEPT)
    first = 0 if harm == "no last checkpoint" else CHECKPOINT_INTERVAL - 1
    assert oldest_version(folder) == first
    assert newest_version(folder) == COMMITS


def test_short_logs_and_tables_that_do_not_exist_are_left_alone(delta: DeltaRs) -> None:
    assert not has_long_log(delta.folder(TABLE))
    delta.ensure(TABLE, SYSTEM[TOPICS])
    assert not has_long_log(delta.folder(TABLE))
    clean_log(delta.folder(TABLE), 0)
    assert delta.versions(TABLE) == range(1)
