"""Retention: deletes rows and records that are too old, as declarations say, and old commits that nobody reads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from functools import cache, partial

from pyspark.sql import SparkSession

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef, TablePlan, TopicPlan
from kaspr_delta.plan.names import is_internal
from kaspr_delta.storage.layout import Layout, time_column
from kaspr_delta.storage.stream_checkpoint import first_needed
from kaspr_delta.storage.tables import Tables

_log = logging.getLogger(__name__)

# Old rows are removed after this part of their retention at the latest, and after this time.
_PART, _LONGEST = 10, timedelta(days=1)


def clean_logs(delta: Tables, tables: Iterable[tuple[str, Layout]]) -> None:
    """Remove old commits of internal tables, topics and channels.

    No stream reads internal tables. Topics and channels keep what streams need, and the rows of all commits. Tables and
    results keep their commits as Delta does, for readers outside.
    """
    needed = cache(partial(first_needed, delta.namespace.checkpoints))
    for table, layout in tables:
        try:
            if is_internal(table):
                delta.clean_log(table)
            elif layout.only_appended:
                delta.clean_followed_log(table, layout.feed_retention, needed)
        except OSError:  # the log stays long, and nothing else depends on it
            _log.warning("old commits of table %s could not be removed", table, exc_info=True)


def removal_is_due(plan: Plan, last: datetime | None, now: datetime) -> bool:
    """Whether a run that has nothing else to do has to remove old rows, if a run removed them ``last``."""
    retentions = [retention for _, retention in _with_retention(plan)]
    if last is None or not retentions:
        return bool(retentions)
    pause = min(timedelta(milliseconds=min(retentions)) / _PART, _LONGEST)
    return not timedelta(0) <= now - last < pause  # the clock may have been set back


def remove_old(
    delta: Tables, spark: SparkSession, plan: Plan, failed: Callable[[ResourceRef, Exception], None]
) -> None:
    """Delete table rows and topic records that are older than their retention.

    Age counts from the timestamp, which a row that is written again unchanged keeps. Joins see the deletion of a row. A
    row that SQL wrote without a time gets the time at which this function first sees it. ``failed`` is called for each
    resource whose rows could not be deleted.
    """
    now = datetime.now(timezone.utc)
    for resource, retention in _with_retention(plan):
        before = now - timedelta(milliseconds=retention)
        try:
            if isinstance(resource, TablePlan):
                _remove_rows(delta, spark, resource, before, now)
            else:
                _remove_records(delta, spark, resource, before)
        except Exception as error:  # noqa: BLE001  the others go on
            failed(resource.ref, error)


def _with_retention(plan: Plan) -> list[tuple[TablePlan | TopicPlan, int]]:
    """The tables and topics that have a retention, each with it in milliseconds."""
    resources: tuple[TablePlan | TopicPlan, ...] = (*plan.tables, *plan.topics)
    return [(one, one.retention) for one in resources if one.retention is not None]


def _remove_rows(delta: Tables, spark: SparkSession, table: TablePlan, before: datetime, now: datetime) -> None:
    written = time_column(table)
    if delta.scan(spark, table.state).where(f"{written} IS NULL").aggregate("count(*)") != (0,):
        delta.update(spark, table.state, f"{written} = {{now}}", f"{written} IS NULL", now=now)
    for name in table.delta_tables:
        _remove_before(delta, spark, name, before, column=written)


def _remove_records(delta: Tables, spark: SparkSession, topic: TopicPlan, before: datetime) -> None:
    _remove_before(delta, spark, topic.delta_name, before)
    if topic.binding is not None and topic.binding.direction == "input":  # the log holds the records too
        _remove_before(delta, spark, topic.log, before, "kind = 'send'")


def _remove_before(  # noqa: PLR0913, PLR0917  all parts of the condition
    delta: Tables, spark: SparkSession, table: str, moment: datetime, only: str = "true", column: str = "timestamp"
) -> None:
    # Read first: a DELETE costs more than a read, even if it deletes nothing.
    old = delta.scan(spark, table).where(f"{column} < {{moment}} AND {only}", moment=moment)
    if old.aggregate("count(*)") != (0,):
        delta.delete(spark, table, f"{column} < {{moment}} AND {only}", moment=moment)
