"""A resource that fails in any step of a run stops no other one: injected errors, and files that are no tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application, ResourceFailedError
from kaspr_delta.engine import retention
from kaspr_delta.engine.batch.batch import BatchRunner
from kaspr_delta.engine.batch.folding import Folding
from kaspr_delta.engine.batch.recovery import Recovery
from kaspr_delta.engine.batch.stream_run import ResourceRun
from kaspr_delta.errors import SetupError
from kaspr_delta.runtime import runner
from kaspr_delta.runtime.run_events import Failed
from kaspr_delta.storage.layout import EVENTS
from tests.continuous import running, wait_until
from tests.folders import folder_of
from tests.manifests import opened
from tests.spark.shapes import PLAN, SHAPES, write_wave

STEPS: dict[str, tuple[Any, str, Callable[[Any], str]]] = {
    "make": (runner, "run_of", str),
    "recover": (Recovery, "recover", lambda recovery: str(recovery.runner.resource.ref)),
    "start": (ResourceRun, "start", lambda stream: str(stream.runner.resource.ref)),
    "decide": (BatchRunner, "process", lambda batch: str(batch.resource.ref)),
    "commit": (BatchRunner, "_commit", lambda batch: str(batch.resource.ref)),
    "fold": (Folding, "fold", lambda folding: str(folding.resource.ref)),
    "clean": (retention, "_remove_rows", lambda _: ""),
}


def break_steps(
    monkeypatch: pytest.MonkeyPatch,
    steps: Mapping[str, Collection[str]],
    error: Callable[[str], Exception] = ValueError,
) -> None:
    """Let each step fail for some resources."""
    for step, victims in steps.items():
        owner, name, ref_of = STEPS[step]
        original = getattr(owner, name)

        def failing(
            *given: Any,
            step: str = step,
            victims: Collection[str] = victims,
            original: Any = original,
            ref_of: Callable[[Any], str] = ref_of,
            **named: Any,
        ) -> Any:
            ref = str(given[2].ref) if step == "clean" else str(given[2]) if step == "make" else ref_of(given[0])
            if ref in victims:
                raise error(f"broken at {step}")
            return original(*given, **named)

        monkeypatch.setattr(owner, name, failing)


AGENT = """
KasprAgent/%s:
  input: {topic: {name: numbers}}
  output: {topics: [{name: %s-told}]}
  processors:
    pipeline: [tell]
    operations: [{name: tell, map: {python: "f = lambda value: value"}}]
"""
COUNT = """
KasprTable/%s: {from: {topic: %s}, count: {}}
"""
MANIFESTS = f"""
KasprApp/app: {{topics: {{arrived: {{files: {{path: ARRIVED, format: json}}}}}}}}
KasprTable/old: {{extraTopicConfigs: {{"cleanup.policy": delete}}}}
KasprJoin/recover: {{leftTable: old, rightTable: old, on: key, type: inner}}
KasprTask/broken:
  schedule: {{interval: 1s}}
  processors:
    pipeline: [break]
    operations: [{{name: break, map: {{python: "f = lambda value: 1 / 0"}}}}]
{AGENT % ("make", "make")}
{AGENT % ("decide", "decide")}
{AGENT % ("well", "well")}
{"".join(COUNT % (name, "numbers") for name in ("healthy", "corrupt", "commit", "fold"))}
{COUNT % ("of-files", "arrived")}
"""


def open_all(spark: SparkSession, folder: Path) -> Application:
    app = opened(spark, folder, "app", MANIFESTS.replace("ARRIVED", str(folder / "arrived")))
    app.topic("numbers").produce([{"key": "a", "value": 1}])
    return app


def corrupt(app: Application, table: str) -> None:
    for commit in (folder_of(app.delta.namespace, table) / "_delta_log").glob("*.json"):
        commit.write_bytes(b"{")


BROKEN = {
    "make": ["agent/make"],
    "recover": ["join/recover"],
    "start": ["topic/arrived"],
    "decide": ["agent/decide"],
    "commit": ["table/commit"],
    "fold": ["table/fold"],
    "clean": ["table/old"],
}
FAILED = {ref for refs in BROKEN.values() for ref in refs} | {"table/corrupt"}
NAMES = {ref.partition("/")[2] for ref in FAILED}


def test_a_resource_that_fails_in_a_step_fails_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resources of each kind that runs fail, each in another step; a task fails whenever it runs."""
    app = open_all(spark, tmp_path)
    told = app.topic("well-told")
    corrupt(app, "aggregation__corrupt")
    break_steps(monkeypatch, BROKEN)
    with pytest.raises(ResourceFailedError) as raised:
        app.run()
    lines = [line for line in str(raised.value).splitlines() if " failed: " in line]
    assert {ref for line in lines for ref in line.split(" failed: ")[0].split(", ")} == FAILED
    assert app.table("healthy").to_dict() == {"a": 1}
    assert len(told.records()) == 1
    noted = {one.name: one for one in app._registry.events() if one.reason == "Failed"}
    assert noted["fold"].first_line.endswith("broken at fold")
    assert 'fails_alone.py", line' in noted["fold"].message

    app._registry.tables.replace(EVENTS, [])
    with running(app) as failures:
        app.topic("numbers").produce([{"key": "a", "value": 1}])
        wait_until(lambda: failures or (app.table("healthy").to_dict() == {"a": 2} and len(told.records()) == 2))
        # Their events do not wait for the end of the run.
        wait_until(
            lambda: {one.name for one in app._registry.events()} >= {ref.split("/")[1] for ref in FAILED}, failures
        )
        wait_until(lambda: failures or any(one["resource"] == "task/broken" for one in app.dead_letters()))
        app.topic("numbers").produce([{"key": "a", "value": 1}])
        wait_until(lambda: failures or (app.table("healthy").to_dict() == {"a": 3} and len(told.records()) == 3))
    (ended,) = failures
    assert isinstance(ended, ResourceFailedError)
    assert all(ref in str(ended) for ref in FAILED)

    monkeypatch.undo()
    again = Application.open(warehouse=tmp_path / "wh", spark=spark)
    assert {str(ref) for ref, _ in again.plan.waiting} <= {"table/corrupt"}
    if not again.plan.waiting:
        with pytest.raises(ResourceFailedError, match="table/corrupt failed"):
            again.run()
    assert again.table("fold").to_dict() == again.table("commit").to_dict() == {"a": 3}
    assert len(again.topic("make-told").records()) == len(again.topic("decide-told").records()) == 3
    assert str(again.status().resources)


@pytest.mark.parametrize(("error", "waits"), [(ValueError, False), (SetupError, True)])
def test_a_continuous_run_in_which_all_fail_ends_and_the_next_one_waits_for_a_remedy(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Callable[[str], Exception],
    waits: bool,
) -> None:
    app = open_all(spark, tmp_path)
    only = [str(ref) for ref in app.plan.runs if ref.kind != "task"]
    break_steps(monkeypatch, {"recover": only}, error)
    with running(app, only=only, restarted=True) as failures:
        wait_until(lambda: failures)
    assert "broken at recover" in str(failures[0])

    again, failed = Application.open(warehouse=tmp_path / "wh", spark=spark), set[str]()
    with running(
        again,
        only=only,
        restarted=True,
        listener=lambda one: failed.add(str(one.resource)) if isinstance(one, Failed) else None,
    ) as failures:
        wait_until(lambda: failed == {*only})
        time.sleep(2.0)
        assert bool(failures) is not waits
    assert "broken at recover" in str(failures[0])

    monkeypatch.undo()
    with running(again, only=only) as failures:
        wait_until(lambda: again.table("healthy").to_dict() == {"a": 1}, failures)
    assert failures == []


@pytest.mark.slow
def test_every_shape_fails_alone_in_every_step(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Application.open(SHAPES, warehouse=tmp_path / "wh", spark=spark)
    runs = [str(ref) for ref in app.plan.runs]
    steps = [step for step in STEPS if step != "clean"]
    for turn in range(len(steps)):
        write_wave(app, turn % 4 + 1)
        chosen: dict[str, list[str]] = {step: [] for step in steps}
        for number, ref in enumerate(runs):
            if (number + turn) % 2:  # the others are healthy
                chosen[steps[(number // 2 + turn) % len(steps)]].append(ref)
        with monkeypatch.context() as patched:
            break_steps(patched, chosen)
            with pytest.raises(ResourceFailedError) as raised:
                app.run()
        lines = str(raised.value).splitlines()
        assert all(": ValueError: broken at " in line for line in lines), lines
        failed = {ref for line in lines for ref in line.split(" failed: ")[0].split(", ")}
        assert failed <= {ref for refs in chosen.values() for ref in refs}
        assert failed >= {*chosen["make"], *chosen["recover"], *chosen["start"]}
        app.run()
    assert {str(ref) for ref in PLAN.runs} >= set(runs)
