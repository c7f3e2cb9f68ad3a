"""A resource that fails in any step of a run stops no other one: injected errors, and files that are no tables."""

from __future__ import annotations

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
from kaspr_delta.runtime import runner
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


def break_steps(monkeypatch: pytest.MonkeyPatch, steps: Mapping[str, Collection[str]]) -> None:
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
                msg = f"broken at {step}"
                raise ValueError(msg)
            return original(*given, **named)

        monkeypatch.setattr(owner, name, failing)


MANIFESTS = """
KasprApp/app: {}
KasprTable/old: {extraTopicConfigs: {"cleanup.policy": delete}}
"""
COUNT = """
KasprTable/%s: {from: {topic: numbers}, count: {}}
"""
WHOLE = ("healthy", "corrupt")


def open_counts(spark: SparkSession, folder: Path) -> Application:
    counts = [COUNT % name for name in (*WHOLE, *STEPS) if name != "clean"]
    app = opened(spark, folder, "app", MANIFESTS + "".join(counts))
    app.topic("numbers").produce([{"key": "a", "value": 1}])
    return app


def corrupt(app: Application, table: str) -> None:
    for commit in (folder_of(app.delta.namespace, table) / "_delta_log").glob("*.json"):
        commit.write_bytes(b"{")


BROKEN = {step: ["table/old" if step == "clean" else f"table/{step}"] for step in STEPS}
FAILED = {ref for refs in BROKEN.values() for ref in refs} | {"table/corrupt"}


def test_a_resource_that_fails_in_a_step_fails_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_counts(spark, tmp_path)
    corrupt(app, "aggregation__corrupt")
    break_steps(monkeypatch, BROKEN)
    with pytest.raises(ResourceFailedError) as raised:
        app.run()
    failed = {ref for line in str(raised.value).splitlines() for ref in line.split(" failed: ")[0].split(", ")}
    assert failed & {f"table/{name}" for name in (*STEPS, *WHOLE, "old")} == FAILED
    assert app.table("healthy").to_dict() == {"a": 1}
    noted = {one.name: one for one in app._registry.events() if one.reason == "Failed"}
    assert noted["fold"].first_line.endswith("broken at fold")
    assert 'fails_alone.py", line' in noted["fold"].message

    app._registry.tables.replace(EVENTS, [])
    with running(app) as failures:
        app.topic("numbers").produce([{"key": "a", "value": 1}])
        wait_until(lambda: failures or app.table("healthy").to_dict() == {"a": 2})
        # Their events do not wait for the end of the run.
        wait_until(lambda: {f"table/{one.name}" for one in app._registry.events()} >= FAILED, failures)
    assert app.table("healthy").to_dict() == {"a": 2}
    (ended,) = failures
    assert isinstance(ended, ResourceFailedError)
    assert all(ref in str(ended) for ref in FAILED)

    monkeypatch.undo()
    again = Application.open(warehouse=tmp_path / "wh", spark=spark)
    assert {str(ref) for ref, _ in again.plan.waiting} <= {"table/corrupt"}
    if not again.plan.waiting:
        with pytest.raises(ResourceFailedError, match="table/corrupt failed"):
            again.run()
    assert again.table("fold").to_dict() == again.table("recover").to_dict() == {"a": 2}
    assert str(again.status().resources)


def test_a_continuous_run_in_which_all_fail_ends(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_counts(spark, tmp_path)
    break_steps(monkeypatch, {"recover": [str(ref) for ref in app.plan.runs]})
    with running(app) as failures:
        wait_until(lambda: failures)
    assert "broken at recover" in str(failures[0])


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
