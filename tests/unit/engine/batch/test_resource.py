"""The fold of ``Resource``, which most resources share."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from kaspr_delta.engine.batch import resource as resource_module
from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.decision import Folded
from kaspr_delta.engine.batch.resource import Fold, LoggedPlan, Resource
from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.limits import Limits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kaspr_delta.engine.rows.rows import Rows
    from kaspr_delta.storage.tables import Tables

SECONDS = 0.3


class FakeTables:
    limits = Limits()


class Planned:
    ref = ResourceRef("join", "j")
    log = "channel__j"


class Failing(Resource[LoggedPlan]):
    """A resource whose log has only failed rows."""

    counted = ("kind",)

    def numbers(self, counts: Mapping[tuple[Any, ...], int]) -> Folded:
        return Folded(0, sum(counts.values()))

    def folds(self, *_: object, **__: object) -> Sequence[Fold]:
        return []

    def letters(self, rows: Rows) -> Rows:
        return rows


def test_dead_letters_of_several_batches_are_appended_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delta skips an append whose transaction version is lower than the last one: its letters would be lost."""
    resource = Failing(cast("Tables", FakeTables()), Planned(), cast("Plan", None))
    appended, another = list[int](), threading.Event()

    def fold_dead_letters(_delta: Tables, _rows: Rows, _resource: str, batch: BatchId) -> None:
        # The first append is delayed, so that others could overtake it.
        if batch.number == 1:
            another.wait(SECONDS)
        appended.append(batch.number)
        another.set()

    monkeypatch.setattr(resource_module, "fold_dead_letters", fold_dead_letters)
    spark = cast("SparkSession", None)
    monkeypatch.setattr(LocalRows, "df", None)
    rows = [LocalRows(spark, pa.table({"kind": ["state"]})) for _ in range(3)]
    batches = [(BatchId("c", number), one) for number, one in enumerate(rows, 1)]
    assert [one.dead_letters for one in resource.fold(batches)] == [1, 1, 1]
    assert appended == [1, 2, 3]
