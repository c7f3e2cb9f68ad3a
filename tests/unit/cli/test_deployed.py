from __future__ import annotations

import json

import pytest

from tests.unit.cli.conftest import Kaspr
from tests.unit.workspace.server import JOIN, FakeWorkspace


def test_status_shows_schedules_runs_and_the_reason_of_a_failure(
    workspace: FakeWorkspace,
    kaspr: Kaspr,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    answer = kaspr("status", "--target", "prod", "--app", "order-system")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert [word in lines[1] for word in ("order-system", "0 0/15 * * * ? UTC", "2027-03-01 06:30", "1 min 15 s")] == [
        True
    ] * 4
    assert "never" in next(line for line in lines if "task/report" in line)
    assert answer.out.endswith(
        "order-system failed: Workload failed\n  join: SerializationError: no JSON\n  https://example.com/runs/13\n"
    )
    assert not any(path.endswith("get-output") for path in workspace.requested_paths)


@pytest.mark.usefixtures("workspace")
def test_status_as_json_has_runs_with_tasks_and_messages(kaspr: Kaspr) -> None:
    answer = kaspr("status", "--target", "prod", "--runs", "1", "-o", "json")
    found = {one["name"]: one for one in json.loads(answer.out)["jobs"]}
    assert found["order-system"]["runs"][0]["tasks"][1] == {
        "key": "join",
        "resources": [JOIN],
        "everything": False,
        "state": "FAILED",
        "message": "SerializationError: no JSON",
    }
    assert found["order-system: task/report"]["runs"] == []


@pytest.mark.usefixtures("workspace")
def test_logs_are_the_output_and_errors_of_the_newest_run(kaspr: Kaspr) -> None:
    answer = kaspr("logs", "--target", "prod", "--app", "order-system")
    assert answer.out.splitlines() == [
        "== order-system, 2027-03-01 06:30: agent_ingest SUCCESS",
        "agent/ingest: 3 rows in",
        "== order-system, 2027-03-01 06:30: join FAILED",
        "reading",
        "… (Databricks keeps no more of it; the run's page has the driver's log)",
        "no JSON",
        "Traceback: here",
        "== order-system, 2027-03-01 06:30: agent_enrich SUCCESS",
    ]


@pytest.mark.usefixtures("workspace")
def test_logs_of_one_resource_are_those_of_its_task(kaspr: Kaspr) -> None:
    answer = kaspr("logs", JOIN, "--target", "prod", "--app", "order-system", "--runs", "2")
    assert [line for line in answer.out.splitlines() if line.startswith("==")] == [
        "== order-system, 2027-03-01 06:30: join FAILED",
        "== order-system, 2027-03-01 06:30: join SUCCESS",
    ]
    assert "all is well" in answer.out


def test_logs_of_a_resource_are_those_of_a_task_that_runs_everything(kaspr: Kaspr, workspace: FakeWorkspace) -> None:
    for run in workspace.runs:
        for task in (task for task in run["tasks"] if "python_wheel_task" in task):
            task["python_wheel_task"]["parameters"] = ["run", "x", "--warehouse", "w"]
    answer = kaspr("logs", JOIN, "--target", "prod", "--app", "order-system")
    assert "agent/ingest: 3 rows in" in answer.out


@pytest.mark.usefixtures("workspace")
def test_logs_of_a_resource_that_did_not_run_are_not_found(kaspr: Kaspr) -> None:
    answer = kaspr("logs", "join/orders-product-join", "--target", "prod", "--app", "order-system")
    assert answer.code == 2
    assert f"did you mean '{JOIN}'?" in answer.err
