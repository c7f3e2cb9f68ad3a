from __future__ import annotations

from pathlib import Path

import pytest

from kaspr_delta.errors import SetupError
from kaspr_delta.storage.folders import LocalFolder
from kaspr_delta.storage.gone import is_gap, what_is_gone, why_the_feed_ends
from kaspr_delta.storage.native.log_files import newest_in

TABLE = "the table orders is gone: /wh/shop/orders was removed while it was in use. Run again"
CHECKPOINT = "/wh/shop/_kaspr/checkpoints/agent-copy/20261125T002700-86c1dbda/commits"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (
            "java.io.FileNotFoundException: File file:/wh/shop/orders/_delta_log does not exist\n\tat a.b(D.java:1)",
            TABLE,
        ),
        ("[DELTA_PATH_DOES_NOT_EXIST] /wh/shop/orders doesn't exist, or is not a Delta table.", TABLE),
        (
            f"[STREAM_FAILED] terminated with exception: File file:{CHECKPOINT} does not exist SQLSTATE: XXKST",
            f"its checkpoint is gone: {CHECKPOINT} was removed while it was in use. Run again",
        ),
        (
            "[UNRESOLVED_COLUMN.X] A column, variable, or function parameter with name `size` cannot be resolved.",
            "column `size` of a table it reads is gone",
        ),
        ("java.io.FileNotFoundException: File file:/wh/shop/orders/part-1.parquet does not exist", "None"),
    ],
    ids=["the log of a table", "a table", "a checkpoint", "a column", "vacuumed changes"],
)
def test_what_was_removed_is_named_with_advice(text: str, named: str) -> None:
    assert str(what_is_gone(RuntimeError(text))).startswith(named)


def test_a_table_without_commits_is_gone(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="the table orders is gone"):
        newest_in(LocalFolder(tmp_path / "orders"))


def test_the_end_of_a_feed_has_a_reason_and_other_errors_have_none() -> None:
    replaced = Exception("[DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE] The streaming query was reading from ...")
    assert why_the_feed_ends(replaced) == "a table it reads was replaced by another one of the same name"
    assert why_the_feed_ends(Exception("No space left on device")) is None


def test_a_missing_file_is_a_gap_and_an_unreadable_one_is_not() -> None:
    assert is_gap(Exception("[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file a.parquet."))
    assert not is_gap(Exception("[FAILED_READ_FILE.NO_HINT] Encountered error while reading file wrong.csv."))
