"""A run that ends in a catalog, where another run holds the leases of all resources; and runs with failures."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kaspr_delta.errors import AlreadyRunningError, ResourceFailedError, SetupError
from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.runtime import runner as module
from kaspr_delta.runtime.run_events import CaughtUp, RunEvent, Started
from kaspr_delta.runtime.runner import Runner
from kaspr_delta.spec.loader import load_text
from kaspr_delta.storage.folders import LocalFolder
from kaspr_delta.storage.namespace import UnityNamespace
from tests.manifests import manifests, plan_of

MANIFESTS = """
KasprTable/orders: {}
KasprTable/products: {extraTopicConfigs: {cleanup.policy: delete}}
KasprJoin/priced: {leftTable: orders, rightTable: products, column: product}
KasprJoin/same: {leftTable: priced, rightTable: products, on: key, onChange: side-by-side}
"""
((PLAN,), _) = build_plans(load_text(manifests("shop", MANIFESTS), "m.yaml"))
PRICED, SAME = ResourceRef("join", "priced"), ResourceRef("join", "same")


@dataclass
class Taken:
    """Tables of a catalog, the leases of whose resources another run holds."""

    shown: int = 0
    namespace: Any = field(init=False)

    def query_each(self, _: Any, selects: dict[str, str]) -> dict[str, list[dict[str, int]]]:
        assert list(selects) == ["shown__same"]
        return {"shown__same": [{"one": 1}] * self.shown}

    def __post_init__(self) -> None:
        def refused(resource: str) -> Any:
            raise AlreadyRunningError(resource)

        binds, goes_on = UnityNamespace.locks_bind_other_processes, UnityNamespace.streams_go_on
        self.namespace = SimpleNamespace(
            locks_bind_other_processes=binds,
            streams_go_on=goes_on,
            disk=None,
            resource_lock=refused,
            checkpoints=LocalFolder(Path(os.devnull)),
        )


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[RunEvent]]:
    """A function that runs both joins, given whether each has something to do. Returns the events of the run."""

    def run(shown: int = 0, **busy: bool | Exception) -> list[RunEvent]:
        def have_nothing_to_do(_spark: Any, refs: list[ResourceRef], _folded: Any) -> bool:
            found = [busy.get(ref.name, False) for ref in refs]
            for one in found:
                if isinstance(one, Exception):
                    raise one
            return not any(found)

        monkeypatch.setattr(module, "run_of", lambda _delta, _plan, ref: SimpleNamespace(runner=ref))
        monkeypatch.setattr(module, "have_nothing_to_do", have_nothing_to_do)
        monkeypatch.setattr(module, "remove_old", lambda *_: None)
        monkeypatch.setattr(module, "folded_batches", lambda *_: {})
        events: list[RunEvent] = []
        nothing: Any = None
        tables: Any = Taken(shown)
        assert Runner(nothing, tables, PLAN, events.append).until_quiet().resources == {}
        return events

    return run


def test_a_run_without_anything_to_do_takes_no_lease(runs: Callable[..., list[RunEvent]]) -> None:
    assert runs() == [Started(PRICED), CaughtUp(PRICED), Started(SAME), CaughtUp(SAME)]


def test_a_failure_of_the_look_itself_is_told_by_a_run_that_has_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old rows are removed by the look."""
    monkeypatch.setattr(module, "run_of", lambda _delta, _plan, ref: SimpleNamespace(runner=ref))
    monkeypatch.setattr(module, "have_nothing_to_do", lambda *_: True)
    monkeypatch.setattr(module, "folded_batches", lambda *_: {})
    monkeypatch.setattr(module, "remove_old", lambda *given: given[3](SAME, OSError("DELETE was refused")))
    nothing: Any = None
    tables: Any = Taken()
    runner = Runner(nothing, tables, PLAN)
    with pytest.raises(ResourceFailedError, match="DELETE was refused"):
        runner.run_if_idle()


@pytest.mark.parametrize("rows", [0, 2])
def test_a_run_without_anything_to_do_reads_endpoints(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """If one had news, another run goes on."""
    bound = plan_of(
        "bound",
        """
KasprApp/bound: {topics: {lines: {files: {path: /in, format: json}}}}
KasprAgent/copy: {input: {topic: {name: lines}}, output: {topics: [{name: copied}]}}
""",
    )
    lines, read = ResourceRef("topic", "lines"), list[Any]()

    def recovered(_: Runner, refs: list[ResourceRef], *, cleans: bool) -> contextlib.nullcontext[None]:
        assert not cleans, "the look has removed old rows, if that was due"
        read.append(refs)
        return contextlib.nullcontext()

    monkeypatch.setattr(module, "run_of", lambda _delta, _plan, ref: SimpleNamespace(runner=ref))
    monkeypatch.setattr(module, "have_nothing_to_do", lambda *_: True)
    monkeypatch.setattr(module, "folded_batches", lambda *_: {})
    monkeypatch.setattr(Runner, "_recovered", recovered)
    monkeypatch.setattr(Runner, "_round", lambda _, refs: rows if refs == [lines] else -1)
    nothing: Any = None
    tables: Any = Taken()
    runner = Runner(nothing, tables, bound)
    report = runner.run_if_idle()
    assert read == [[lines]]
    assert report is None if rows else report is not None
    runner._folded = {}  # it had locks
    other = Runner(nothing, tables, bound)
    other.go_on_from(runner)
    assert other.run_if_idle() is None
    assert read == [[lines]]


@pytest.mark.parametrize(
    "work",
    [{"priced": True}, {"same": True}, {"same": OSError("the log is being written")}, {"shown": 1}],
    ids=["first stage", "last stage", "unreadable", "killed rebuild"],
)
def test_a_run_with_work_for_one_resource_takes_the_leases(
    runs: Callable[..., list[RunEvent]], work: dict[str, Any]
) -> None:
    with pytest.raises(AlreadyRunningError):
        runs(**work)


PASSING, LASTING = OSError("the connection was lost"), SetupError("the state has a newer format")


@pytest.mark.parametrize(
    ("errors", "is_over"),
    [
        ({}, False),
        ({PRICED: PASSING}, True),
        ({PRICED: LASTING}, False),
        ({PRICED: RuntimeError("[INSUFFICIENT_PERMISSIONS] no SELECT")}, False),
        ({PRICED: LASTING, SAME: PASSING}, True),
    ],
)
def test_a_continuous_run_tries_again_what_may_go_well_later(
    monkeypatch: pytest.MonkeyPatch, errors: dict[ResourceRef, Exception], is_over: bool
) -> None:
    monkeypatch.setattr(module, "_TRY_AGAIN", 0.0)
    nothing: Any = None
    tables: Any = Taken()
    runner = Runner(nothing, tables, PLAN)
    runner._all = frozenset([PRICED, SAME, ResourceRef("agent", "healthy")])
    runner._failures.errors.update(errors)
    time.sleep(0.001)
    assert runner._is_over is is_over


@pytest.mark.parametrize(
    ("error", "failed_before", "is_over"),
    [
        (LASTING, {}, True),
        (LASTING, {PRICED: str(LASTING)}, True),
        (LASTING, {PRICED: str(LASTING), SAME: str(LASTING)}, False),
        (LASTING, {PRICED: "another error", SAME: str(LASTING)}, True),
        (PASSING, {PRICED: f"OSError: {PASSING}", SAME: str(LASTING)}, True),
    ],
)
def test_a_continuous_run_in_which_all_fail_ends_once_for_what_does_not_pass(
    monkeypatch: pytest.MonkeyPatch, error: Exception, failed_before: dict[ResourceRef, str], is_over: bool
) -> None:
    nothing: Any = None
    tables: Any = Taken()
    runner = Runner(nothing, tables, PLAN)
    runner._all, runner._failed_before = frozenset([PRICED, SAME]), failed_before
    for ref, failed in ((PRICED, error), (SAME, LASTING)):
        runner._failures.note(ref, failed)
    assert runner._has_failed is runner._is_over is is_over
    monkeypatch.setattr(module, "_TRY_ALL_AGAIN", 0.0)
    time.sleep(0.001)
    assert runner._is_over
    assert runner._has_failed is is_over
