from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kaspr_delta.storage.native.log_files import (
    actions_of,
    commit_file,
    metrics_of,
    notes_in,
    rows_changed_after,
    rows_of_commit,
)


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


def test_texts_in_a_commit_may_have_unicode_line_separators(tmp_path: Path) -> None:
    stats = json.dumps({"numRecords": 2, "minValues": {"key": "a\u2028\x85\x1cb"}}, ensure_ascii=False)
    (tmp_path / "_delta_log").mkdir()
    file = commit_file(tmp_path, 0)
    file.write_text(f"{json.dumps({'add': {'stats': stats}}, ensure_ascii=False)}\n", encoding="utf-8")
    assert rows_of_commit(actions_of(tmp_path, 0)) == 2


def test_changed_rows_of_commits_after_a_version_are_added_up(tmp_path: Path) -> None:
    assert rows_changed_after(tmp_path, 0) is None
    log = tmp_path / "_delta_log"
    log.mkdir()
    for version, rows in enumerate((1, 10, 100)):
        (log / f"{version:020}.json").write_text("\n".join(commit("WRITE", rows, numOutputRows=rows)))
    assert [rows_changed_after(tmp_path, version) for version in (-1, 0, 1, 2, 3)] == [111, 110, 100, 0, 0]


def test_metrics_of_a_commit_have_the_names_of_delta(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    lines = commit("MERGE", 90, numTargetRowsCopied=87, numTargetFilesRemoved=1)
    (log / f"{4:020}.json").write_text("\n".join(lines))
    assert metrics_of(tmp_path, 4) == {"numTargetRowsCopied": 87, "numTargetFilesRemoved": 1}
    assert metrics_of(tmp_path, 5) == {}


def test_notes_of_commits_come_with_the_number_of_rows_written(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    for version, note in enumerate(("before", None, "a batch", "another")):
        about, *files = commit("WRITE", 7, numOutputRows=version)
        noted = {"commitInfo": {**json.loads(about)["commitInfo"], **({"userMetadata": note} if note else {})}}
        (log / f"{version:020}.json").write_text("\n".join([json.dumps(noted), *files]))
    assert notes_in(tmp_path, range(1, 6)) == {"a batch": 2, "another": 3}
