"""A topic whose old commits were removed has the change feed of one whose commits are all there."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kaspr_delta.storage.folders import BucketFolder, LocalFolder
from kaspr_delta.storage.layout import Layout
from kaspr_delta.storage.namespace import LocalNamespace
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.log_cleaning import clean_followed_log
from kaspr_delta.storage.native.log_files import commit_file, newest_version, oldest_version
from kaspr_delta.storage.native.old_commits import IrregularError, end_of_old, files_added, keep_commits
from kaspr_delta.storage.native.records import records_appended
from tests.buckets import keep_buckets_in_memory

TOPIC = Layout("key STRING, seq BIGINT", change_feed=True, keeps_log=True)
DAY = 24 * 3_600.0
Feed = Counter[tuple[int, str]]


class KilledError(Exception):
    pass


@pytest.fixture
def twins(tmp_path: Path) -> tuple[DeltaRs, DeltaRs]:
    """Two warehouses: the first one is cleaned, the second one is not."""
    both = tuple(DeltaRs(LocalNamespace(tmp_path / name, "shop", "shop")) for name in ("cleaned", "whole"))
    for delta in both:
        delta.ensure("t", TOPIC)
    return both  # type: ignore[return-value]


def append(delta: DeltaRs, *keys: str) -> None:
    delta.append("t", pa.table({"key": list(keys), "seq": list(range(len(keys)))}))


def folder_of(delta: DeltaRs) -> LocalFolder:
    folder = delta.folder("t")
    assert isinstance(folder, LocalFolder)
    return folder


def age(delta: DeltaRs) -> None:
    for version in delta.versions("t"):
        at = time.time() - DAY + version
        os.utime((folder_of(delta).path / commit_file(version)), (at, at))


def feed_by_files(delta: DeltaRs, first: int, last: int) -> Feed:
    folder, found = folder_of(delta), Feed()
    for added in files_added(folder, first, last).to_pylist():
        rows = pq.read_table(folder.path / added["file"], columns=["key"])
        found.update((added["version"], key) for key in rows["key"].to_pylist())
    return found


def feed_by_delta(delta: DeltaRs, first: int, last: int) -> Feed:
    rows = (row for batch in delta.changes("t", first, last) for row in batch.to_pylist())
    return Counter((row["_commit_version"], row["key"]) for row in rows if row["_change_type"] == "insert")


def rows_in_order(delta: DeltaRs) -> list[Any]:
    """The rows with the types of their columns; the first part may have removed commits and others."""
    return [
        (column, rows.schema.field(column).type, rows[column].to_pylist())
        for rows in records_appended(delta, "t")
        for column in ("key", "seq", "_commit_version", "_change_type")
    ]


def kill_after(patched: pytest.MonkeyPatch, writes: int) -> None:
    """Let a process die at the next rename or deletion after some."""
    left = [writes]

    def dying(name: str) -> Any:
        done = getattr(Path, name)

        def one(*arguments: Any, **named: Any) -> Any:
            if not left[0]:
                raise KilledError
            left[0] -= 1
            return done(*arguments, **named)

        return one

    for name in ("unlink", "replace"):
        patched.setattr(Path, name, dying(name))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.further) for seed in range(1, 5))])
def test_the_feed_of_a_cleaned_topic_is_that_of_a_whole_one(
    twins: tuple[DeltaRs, DeltaRs], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After appends, deletions and compactions in any order, and cleanings some of which were killed."""
    dice, cleaned, whole = random.Random(seed), *twins  # noqa: S311
    for number in range(60):
        match dice.choices(("append", "delete", "compact", "clean"), (80, 5, 2, 13))[0]:
            case "append":
                keys = [f"{number}-{row}" for row in range(dice.randrange(1, 4))]
                for delta in twins:
                    append(delta, *keys)
            case "delete":
                gone = dice.randrange(number + 1)
                for delta in twins:
                    delta.delete("t", f"key LIKE '{gone}-%'")
            case "compact":
                for delta in twins:
                    delta.open("t").optimize.compact()
            case "clean":
                cleaned.open("t").create_checkpoint()
                age(cleaned)
                needed = dice.choice((None, dice.randrange(newest(cleaned) + 1)))
                with monkeypatch.context() as patched:
                    if dice.random() < 0.5:
                        kill_after(patched, dice.randrange(12))
                    with contextlib.suppress(KilledError):
                        clean_followed_log(folder_of(cleaned), 600.0, needed)
                first, last = dice.randrange(newest(whole) + 1), newest(whole)
                assert feed_by_files(cleaned, first, last) == feed_by_delta(whole, first, last)
    last = newest(whole)
    assert newest(cleaned) == last
    assert feed_by_files(cleaned, 0, last) == feed_by_delta(whole, 0, last)
    assert sorted(row["key"] for row in cleaned.rows("t")) == sorted(row["key"] for row in whole.rows("t"))
    assert end_of_old(folder_of(cleaned))
    assert len([*(folder_of(cleaned).path / "_commits").glob("*.parquet")]) <= 7
    assert end_of_old(folder_of(whole)) == 0
    assert feed_by_delta(cleaned, 0, last) == feed_by_delta(whole, 0, last)
    assert rows_in_order(cleaned) == rows_in_order(whole)
    assert cleaned.fed_versions("t") == whole.fed_versions("t") == range(last + 1)


def newest(delta: DeltaRs) -> int:
    found = newest_version(folder_of(delta))
    assert found is not None
    return found


def test_a_stream_finds_the_commits_that_it_needs_in_the_log(twins: tuple[DeltaRs, DeltaRs]) -> None:
    delta, _ = twins
    for number in range(30):
        append(delta, str(number))
        if number in {9, 19, 29}:
            delta.open("t").create_checkpoint()
    age(delta)
    for needed, first in ((5, 0), (19, 10), (20, 20), (29, 20), (None, 30)):
        clean_followed_log(folder_of(delta), 600.0, needed)
        assert oldest_version(folder_of(delta)) == end_of_old(folder_of(delta)) == first
        assert sum(feed_by_files(delta, 0, 30).values()) == 30
        assert [delta.rows_changed("t", version) for version in (0, 4, 25, 31)] == [30, 27, 6, 0]


def test_the_times_of_commits_are_kept(twins: tuple[DeltaRs, DeltaRs]) -> None:
    """A stream-table join compares them with those of the table's commits."""
    delta, whole = twins
    append(delta, "a")
    age(delta)
    written = int((folder_of(delta).path / commit_file(1)).stat().st_mtime_ns // 1_000_000)
    keep_commits(folder_of(delta), 2)
    (folder_of(delta).path / commit_file(1)).unlink()
    (added,) = files_added(folder_of(delta), 0, 1).to_pylist()
    assert int(added["at"].timestamp() * 1_000 + 0.5) == written
    assert files_added(folder_of(whole), 0, 0).num_rows == 0


@pytest.mark.parametrize("operation", ["merge", "overwrite in a subfolder", "a broken commit"])
def test_a_commit_that_is_more_than_an_append_stays_in_the_log_with_all_later_ones(
    twins: tuple[DeltaRs, DeltaRs], operation: str
) -> None:
    """It would not be in the feed, or with other rows."""
    delta, _ = twins
    append(delta, "a")
    delta.open("t").create_checkpoint()
    append(delta, "b")
    irregular, folder = newest(delta) + 1, folder_of(delta)
    match operation:
        case "merge":
            rows = pa.table({"key": ["b", "c"], "seq": pa.array([1, 2], pa.int64())})
            merge = delta.open("t").merge(rows, "s.key = t.key", "s", "t")
            merge.when_matched_update_all().when_not_matched_insert_all().execute()
        case "a broken commit":
            append(delta, "c")
            (folder.path / commit_file(irregular)).write_text("{")
        case _:
            append(delta, "c")
            file = folder.path / commit_file(irregular)
            file.write_text(file.read_text().replace('"path":"', '"path":"elsewhere%2F'))
    with pytest.raises(IrregularError):
        keep_commits(folder, irregular + 1)
    assert end_of_old(folder) == 0
    if operation == "merge":
        append(delta, "d")
        delta.open("t").create_checkpoint()
        age(delta)
        clean_followed_log(folder, 600.0, None)
        assert (end_of_old(folder), oldest_version(folder)) == (1, 1)
        assert (folder.path / commit_file(irregular)).exists()


def test_parts_that_a_larger_one_has_taken_in_do_not_count(twins: tuple[DeltaRs, DeltaRs]) -> None:
    """A kill between the larger part and the removal of these leaves both."""
    delta, _ = twins
    for key in "abcd":
        append(delta, key)
    folder = folder_of(delta)
    keep_commits(folder, 2)
    small = next((folder.path / "_commits").iterdir())
    saved = Path(shutil.copy(small, folder.path / "saved"))
    keep_commits(folder, 5)
    assert not small.exists()
    saved.rename(small)
    assert feed_by_files(delta, 0, 4) == Counter({(1, "a"): 1, (2, "b"): 1, (3, "c"): 1, (4, "d"): 1})
    assert delta.open("t").vacuum(0, dry_run=True, enforce_retention_duration=False) == []


def test_removed_commits_of_a_table_that_was_copied_to_a_bucket_are_read_and_listed_once(
    twins: tuple[DeltaRs, DeltaRs], monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaned, whole = twins
    for delta in twins:
        for number in range(6):
            append(delta, f"{number}")
    keep_commits(folder_of(cleaned), 4)
    for version in range(4):
        folder_of(cleaned).remove(commit_file(version))
    keep_buckets_in_memory(monkeypatch)
    bucket = BucketFolder(f"s3://bucket/{uuid.uuid4().hex}")
    for name in folder_of(cleaned).files():
        bucket.write(name, folder_of(cleaned).read(name))
    listed: list[str] = []
    names = BucketFolder.names

    def noted(folder: BucketFolder, name: str = ".") -> list[str]:
        listed.append(name)
        return names(folder, name)

    monkeypatch.setattr(BucketFolder, "names", noted)
    assert end_of_old(bucket) == 4
    found = files_added(bucket, 0, 6)
    assert found["version"].to_pylist() == files_added(folder_of(whole), 0, 6)["version"].to_pylist() == [*range(1, 7)]
    assert found["file"].to_pylist() == files_added(folder_of(cleaned), 0, 6)["file"].to_pylist()
    assert listed == ["_commits"]
    bucket.remove_all()
    bucket.write(commit_file(0), b"{}")  # another table
    newest_version(bucket)
    assert end_of_old(bucket) == 0
