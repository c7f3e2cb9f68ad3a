from __future__ import annotations

import json
import random
import uuid
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from kaspr_delta.errors import SetupError
from kaspr_delta.storage.folders import BucketFolder, LocalFolder, Stamp
from kaspr_delta.storage.native.log_files import (
    actions_of,
    commit_file,
    commit_of,
    head_at,
    listed,
    newest_head,
    newest_in,
    newest_version,
    rows_changed_after,
    rows_of_commit,
)
from tests.buckets import keep_buckets_in_memory


def commit(operation: str, *added: int, data_change: bool = True, **metrics: int) -> list[str]:
    """The lines of a commit: its operation and metrics, and added files with these numbers of rows."""
    about: dict[str, Any] = {"operation": operation}
    if metrics:
        about["operationMetrics"] = {name: str(count) for name, count in metrics.items()}
    files = [{"add": {"dataChange": data_change, "stats": json.dumps({"numRecords": rows})}} for rows in added]
    return [json.dumps(action) for action in ({"commitInfo": about}, *files)]


@pytest.mark.parametrize(
    ("lines", "rows"),
    [
        (commit("WRITE", 3, numOutputRows=3), 3),
        # A MERGE writes whole files anew: rows that were only copied are not changed.
        (commit("MERGE", 90, numTargetRowsInserted=1, numTargetRowsUpdated=2, numTargetRowsDeleted=4), 7),
        (commit("DELETE", numDeletedRows=5), 5),
        (commit("UPDATE", 10, numUpdatedRows=1), 1),
        (commit("OPTIMIZE", 100, data_change=False), 0),
        (commit("SET TBLPROPERTIES"), 0),
        (commit("WRITE", 2, 3), 5),  # written without metrics
        (['{"add": {"dataChange": true}}'], 0),
    ],
)
def test_rows_of_a_commit_are_the_rows_that_it_changed(lines: list[str], rows: int) -> None:
    assert rows_of_commit(list(map(json.loads, lines))) == rows


def log(location: Path, *commits: list[str]) -> Path:
    """Write the log of a table."""
    (location / "_delta_log").mkdir()
    for version, lines in enumerate(commits):
        (location / commit_file(version)).write_text("\n".join(lines), encoding="utf-8")
    return location


def name_checkpoint(location: Path, text: str) -> None:
    (location / "_delta_log" / "_last_checkpoint").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("seed", range(40))
def test_the_newest_version_is_that_of_a_listing_whatever_checkpoints_and_cleanings_came_before(
    tmp_path: Path, seed: int
) -> None:
    """Of an old commit or two, a cleaning that was killed may have left the files."""
    dice, newest, cleaned, checkpoint = random.Random(seed), -1, 0, None  # noqa: S311
    assert newest_version(LocalFolder(tmp_path)) is None
    log(tmp_path)
    for _ in range(60):
        match dice.choice(("commit", "commit", "commit", "checkpoint", "clean")):
            case "commit":
                newest += 1
                (tmp_path / commit_file(newest)).write_text("")
            case "checkpoint" if newest >= 0:
                checkpoint = newest
                name_checkpoint(tmp_path, json.dumps({"version": checkpoint, "size": 3}))
            case "clean" if checkpoint is not None:
                left = dice.sample(range(cleaned, checkpoint), min(checkpoint - cleaned, dice.randrange(3)))
                for version in set(range(cleaned, checkpoint)) - {*left}:
                    (tmp_path / commit_file(version)).unlink(missing_ok=True)
                cleaned = checkpoint
        names = [int(file.stem) for file in (tmp_path / "_delta_log").glob("*.json")]
        assert newest_version(LocalFolder(tmp_path)) == max(names, default=None)


def test_the_newest_version_is_found_without_a_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing takes time for each commit of the past."""
    log(tmp_path, *([] for _ in range(30)))
    name_checkpoint(tmp_path, '{"version": 20}')
    monkeypatch.setattr("kaspr_delta.storage.native.log_files.versions_in", None)
    assert newest_version(LocalFolder(tmp_path)) == 29


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 7}', '{"version": null}'])
def test_a_log_without_a_readable_last_checkpoint_is_listed(tmp_path: Path, text: str) -> None:
    log(tmp_path, *([] for _ in range(3)))
    name_checkpoint(tmp_path, text)
    assert newest_version(LocalFolder(tmp_path)) == 2


def test_texts_in_a_commit_may_have_unicode_line_separators(tmp_path: Path) -> None:
    stats = json.dumps({"numRecords": 2, "minValues": {"key": "a\u2028\x85\x1cb"}}, ensure_ascii=False)
    log(tmp_path, [json.dumps({"add": {"stats": stats}}, ensure_ascii=False)])
    assert rows_of_commit(actions_of(LocalFolder(tmp_path), 0)) == 2


def test_changed_rows_of_commits_after_a_version_are_added_up(tmp_path: Path) -> None:
    assert rows_changed_after(LocalFolder(tmp_path), 0) is None
    log(tmp_path, *(commit("WRITE", rows, numOutputRows=rows) for rows in (1, 10, 100)))
    assert [rows_changed_after(LocalFolder(tmp_path), version) for version in (-1, 0, 1, 2, 3)] == [111, 110, 100, 0, 0]


def test_a_commit_has_its_rows_metrics_note_and_change_files(tmp_path: Path) -> None:
    metrics = {"numTargetRowsCopied": "87", "numOutputRows": "3"}
    about = {"operation": "WRITE", "operationMetrics": metrics, "userMetadata": "a batch", "timestamp": 1_000}
    log(tmp_path, [json.dumps({"commitInfo": about}), '{"cdc": {}}', '{"cdc": {}}'], commit("WRITE", 7))
    noted, other = (commit_of(LocalFolder(tmp_path), version) for version in range(2))
    assert noted is not None
    assert (noted.rows, noted.note, noted.change_files, noted.metrics) == (3, "a batch", 2, metrics)
    assert noted.at == datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc)
    assert other is not None
    assert (other.rows, other.note, other.change_files) == (7, None, 0)
    assert commit_of(LocalFolder(tmp_path), 2) is None


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> BucketFolder:
    keep_buckets_in_memory(monkeypatch)
    return BucketFolder(f"s3://bucket/{uuid.uuid4().hex}")


@pytest.mark.parametrize("seed", range(40))
def test_in_a_bucket_the_newest_version_is_that_of_a_whole_listing_whoever_commits_cleans_or_replaces_the_table(
    bucket: BucketFolder, seed: int
) -> None:
    """A table that took another one's place has another life, also with the same versions."""
    dice, newest, cleaned = random.Random(seed), -1, 0  # noqa: S311
    lives: list[object] = []
    same, seen = False, -1
    assert newest_version(bucket) is None
    for step in range(60):
        match dice.choice(("commit", "commit", "commit", "clean", "replace", "look")):
            case "commit":
                newest += 1
                bucket.write(commit_file(newest), str(step).encode())
            case "clean" if newest > 0:
                for version in range(cleaned, newest):
                    bucket.remove(commit_file(version))
                # The commit that was seen last may be gone.
                cleaned, same = newest, same and seen == newest
            case "replace" if newest >= 0:
                bucket.remove_all()
                newest, cleaned, same = dice.choice((-1, 0, newest, newest + 2)), 0, False
                for version in range(newest + 1):
                    bucket.write(commit_file(version), f"other {step}".encode())
            case "look":
                found, seen = listed(bucket), newest
                assert (None if found is None else found.head.version) == (None if newest < 0 else newest)
                if found is not None:
                    assert found.head == newest_head(bucket) == head_at(bucket, newest)
                    assert (found.life in lives) == same
                    lives, same = [found.life], True


def test_in_a_bucket_a_look_at_a_log_lists_it_from_the_commit_that_was_the_newest(
    bucket: BucketFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    stamps = BucketFolder.stamps

    def noted(self: BucketFolder, name: str, after: str = "") -> dict[str, Stamp]:
        asked.append(after)
        return stamps(self, name, after)

    monkeypatch.setattr(BucketFolder, "stamps", noted)
    for version in range(3):
        bucket.write(commit_file(version), b"{}")
    assert [newest_version(bucket) for _ in range(2)] == [2, 2]
    bucket.write(commit_file(3), b"{}")
    assert newest_in(bucket).version == 3
    assert asked == ["", f"{1:020}.json", f"{1:020}.json"]


def test_a_newest_commit_without_a_byte_is_refused_with_the_remedy(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path / "orders")
    (folder / "_delta_log").make()
    for version, text in enumerate(("{}", "{}", "")):
        folder.write(commit_file(version), text.encode())
    for newest in (newest_head, newest_in):
        with pytest.raises(SetupError, match=r"the table orders is an empty file.* Remove .*0002\.json, and run or"):
            newest(folder)
    folder.remove(commit_file(2))
    assert newest_in(folder).version == 1
