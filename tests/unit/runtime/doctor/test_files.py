from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import pytest

from kaspr_delta.storage.namespace import UnityNamespace
from tests.unit.runtime.doctor.fake import answer_of, bench_on

NAMES = ("volume", "rename", "exclusive create")


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_of_this_machine_is_ok(tmp_path: Path, name: str) -> None:
    answer = answer_of(bench_on(tmp_path), name)
    assert answer.grade == "ok", answer


@pytest.mark.parametrize("name", [*NAMES, "stream"])
def test_a_volume_that_is_out_of_reach_is_a_problem(tmp_path: Path, name: str) -> None:
    bench = bench_on(tmp_path, namespace=UnityNamespace("main", "shop", "volume", application="shop"))
    answer = answer_of(bench, name)
    assert answer.grade == ("note" if name == "exclusive create" else "problem")
    assert answer.seen == "/Volumes/main/shop/volume is reached by Databricks compute only, not from here"


def test_a_volume_that_may_not_be_written_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_text", refuse)
    assert answer_of(bench_on(tmp_path), "volume").grade == "problem"


def test_a_volume_with_stale_listings_or_content_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Path, "glob", lambda *_: iter(()))
        assert "does not list its files" in answer_of(bench_on(tmp_path), "volume").seen
    monkeypatch.setattr(Path, "read_text", lambda _: "stale")
    assert "has another content" in answer_of(bench_on(tmp_path), "volume").seen


def test_a_rename_that_removes_the_file_first_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace, read_text = Path.replace, Path.read_text

    def in_two_steps(path: Path, target: Path) -> Path:
        target.unlink()
        with pytest.raises(FileNotFoundError):
            read_text(target)
        for _ in range(1000):  # the reader looks meanwhile
            target.exists()
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", in_two_steps)
    answer = answer_of(bench_on(tmp_path), "rename")
    assert (answer.grade, answer.seen) == ("problem", "while files were renamed, no file was read")


def test_a_rename_that_shows_the_old_content_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "replace", lambda path, _: path)
    assert answer_of(bench_on(tmp_path), "rename").seen.endswith("after a rename the old content was read")


def test_a_file_that_is_created_twice_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_ = Path.open

    def created(path: Path, mode: str = "r", *more: Any, **named: Any) -> IO[Any]:
        return open_(path, "w" if mode == "x" else mode, *more, **named)

    monkeypatch.setattr(Path, "open", created)
    answer = answer_of(bench_on(tmp_path), "exclusive create")
    assert (answer.grade, "was created once more" in answer.seen) == ("note", True)
