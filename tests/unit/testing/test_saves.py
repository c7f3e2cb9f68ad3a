from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kaspr_delta.testing.saves import saves


def counted(folder: Path, without: Path, change: Callable[[], object]) -> int:
    """How often files were saved: at the beginning, and by the change between two looks."""
    looks = iter([False, False, True])

    def stopped(_: float) -> bool:
        change()
        return next(looks)

    return sum(1 for _ in saves(folder, stopped, without))


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("app.yaml", True),
        ("data/rows.jsonl", True),
        (".git/index", False),
        ("__pycache__/x.pyc", False),
        ("wh/shop/t.parquet", False),
    ],
)
def test_a_saved_file_is_seen_once_and_warehouses_and_caches_are_left_out(
    tmp_path: Path, name: str, *, seen: bool
) -> None:
    file = tmp_path / name

    def save() -> None:
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("a: 1\n")

    assert counted(tmp_path, tmp_path / "wh", save) == 1 + seen


def test_a_file_that_is_written_anew_or_removed_was_saved(tmp_path: Path) -> None:
    file = tmp_path / "app.yaml"
    file.write_text("a: 1\n")
    assert counted(tmp_path, tmp_path / "wh", lambda: os.utime(file, ns=(5, 5))) == 2
    assert counted(tmp_path, tmp_path / "wh", lambda: file.unlink(missing_ok=True)) == 2
