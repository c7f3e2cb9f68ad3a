from __future__ import annotations

from kaspr_delta.runtime.streams import _short

AWAITED = """An error occurred while calling o821.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2872)
Caused by: java.lang.IllegalArgumentException: CSV header does not conform to the schema.
CSV file: file:///data/rows/wrong.csv
\tat org.apache.spark.sql.catalyst.csv.CSVHeaderChecker.checkHeaderColumnNames(CSVHeaderChecker.scala:97)
\t... 1 more
"""


def test_a_failure_is_told_without_the_stack() -> None:
    assert _short(ValueError("no\n\tat a.b.C(D.java:1)")) == "ValueError: no"


def test_of_a_failure_in_another_thread_the_cause_is_told() -> None:
    told = _short(RuntimeError(AWAITED))
    assert told.endswith("CSV header does not conform to the schema.\nCSV file: file:///data/rows/wrong.csv")
    assert "awaitResult" not in told
