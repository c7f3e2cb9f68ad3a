from __future__ import annotations

from kaspr_delta.engine.batch.source_errors import is_gap, why_the_feed_ends


def test_the_end_of_a_feed_has_a_reason_and_other_errors_have_none() -> None:
    replaced = Exception("[DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE] The streaming query was reading from ...")
    assert why_the_feed_ends(replaced) == "a table it reads was replaced by another one of the same name"
    assert why_the_feed_ends(Exception("No space left on device")) is None


def test_a_missing_file_is_a_gap_and_an_unreadable_one_is_not() -> None:
    assert is_gap(Exception("[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file a.parquet."))
    assert not is_gap(Exception("[FAILED_READ_FILE.NO_HINT] Encountered error while reading file wrong.csv."))
