"""Streams of a run, with fake queries instead of Spark's."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.runtime.failures import Failures
from kaspr_delta.runtime.streams import Streams

JOIN = ResourceRef("join", "j")


class StoppedAtGap:
    """A query that Delta stopped, because changes are gone from a table."""

    lastProgress = None  # noqa: N815  as in PySpark

    def awaitTermination(self, timeout: float) -> bool:  # noqa: ARG002, N802  as in PySpark
        raise RuntimeError("FILE_NOT_EXIST")

    def exception(self) -> Exception:
        return RuntimeError("FILE_NOT_EXIST")


def streams(*, fills: bool) -> Streams:
    """The streams of one resource, which has nothing to read after its gap is filled."""
    run = SimpleNamespace(
        recovery=SimpleNamespace(fill_gap=lambda *_: fills),
        stream=SimpleNamespace(start=lambda *_: None),
        resource=SimpleNamespace(fills_gaps=True),
    )
    runs: Any = {JOIN: run}
    made = Streams(cast("Any", None), runs, Failures(runs, lambda _: None), None)
    made.queries[JOIN] = cast("Any", StoppedAtGap())
    return made


def test_a_filled_gap_counts_as_rows_so_that_a_loop_goes_another_round() -> None:
    assert streams(fills=True).await_processed(JOIN, threading.Event()) > 0


def test_a_gap_that_cannot_be_filled_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="FILE_NOT_EXIST"):
        streams(fills=False).await_processed(JOIN, threading.Event())
