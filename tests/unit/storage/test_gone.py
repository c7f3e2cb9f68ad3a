from __future__ import annotations

from pathlib import Path

import pytest

from kaspr_delta.errors import SetupError
from kaspr_delta.storage.gone import what_is_gone
from kaspr_delta.storage.native.log_files import newest_in


@pytest.mark.parametrize(
    "text",
    [
        "java.io.FileNotFoundException: File file:/wh/shop/orders/_delta_log does not exist\n\tat a.b.C(D.java:1)",
        "[DELTA_PATH_DOES_NOT_EXIST] /wh/shop/orders doesn't exist, or is not a Delta table.",
    ],
)
def test_a_removed_table_is_named_with_advice(text: str) -> None:
    expected = "the table orders is gone: /wh/shop/orders was removed while it was in use. Run again"
    assert str(what_is_gone(RuntimeError(text))).startswith(expected)


def test_a_removed_checkpoint_is_named() -> None:
    folder = "/wh/shop/_kaspr/checkpoints/agent-copy/20261125T002700-86c1dbda/commits"
    error = RuntimeError(
        f"[STREAM_FAILED] terminated with exception: File file:{folder} does not exist SQLSTATE: XXKST"
    )
    assert str(what_is_gone(error)) == (f"its checkpoint is gone: {folder} was removed while it was in use. Run again")


def test_a_dropped_column_is_named() -> None:
    text = (
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `size` cannot be"
        " resolved. Did you mean one of the following? [`price`, `day`]. SQLSTATE: 42703"
    )
    assert str(what_is_gone(RuntimeError(text))).startswith("column `size` of a table it reads is gone")


def test_vacuumed_changes_are_not_taken_for_a_removed_table() -> None:
    vacuumed = "java.io.FileNotFoundException: File file:/wh/shop/orders/part-1.parquet does not exist"
    assert what_is_gone(RuntimeError(vacuumed)) is None


def test_a_table_without_commits_is_gone(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="the table orders is gone"):
        newest_in(tmp_path / "orders")
