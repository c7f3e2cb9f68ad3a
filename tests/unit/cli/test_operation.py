from __future__ import annotations

from pathlib import Path

import pytest

from kaspr_delta.application import Application
from kaspr_delta.cli import task
from kaspr_delta.cli.operation import expanded
from kaspr_delta.errors import AlreadyRunningError, UsageError
from kaspr_delta.plan.names import delta_name
from kaspr_delta.runtime.report import RunReport
from tests.unit.cli.conftest import Kaspr
from tests.unit.workspace.server import FAILED, JOIN, SUCCESS, FakeWorkspace, with_operations

QUEUED, RUNNING = ({"life_cycle_state": state} for state in ("QUEUED", "RUNNING"))
MANIFESTS = ["/files/shop", "--origin", "shop", "--revision", "r1"]
WHERE = ["--app", "shop", "--warehouse", "wh"]


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kaspr_delta.workspace.operations._POLL", 0)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("rebuild join/a", ["rebuild", "--patience", "1h", "join/a", *MANIFESTS]),
        (
            "rebuild join/a --patience 5m",
            ["rebuild", "--patience", "1h", "join/a", "--patience", "5m", *MANIFESTS],
        ),
        ("dead-letters --retry --resource 'agent/a b'", ["dead-letters", "--retry", "--resource", "agent/a b"]),
        ("status", ["status"]),
        ("delete agent mails --purge", ["delete", "agent", "mails", "--purge"]),
    ],
)
def test_the_task_of_operations_runs_the_command_on_its_application(text: str, arguments: list[str]) -> None:
    assert expanded(["operation", *MANIFESTS, text, *WHERE]) == [*WHERE, *arguments]
    assert expanded(["run", "bundles/shop", *WHERE]) == ["run", "bundles/shop", *WHERE]


def test_the_task_of_operations_removes_all_data_of_its_application() -> None:
    arguments = ["operation", *MANIFESTS, "purge --yes", *WHERE, "--values", "prod.yaml"]
    assert expanded(arguments) == ["purge", "--own-job", "--yes", "shop", "--warehouse", "wh"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run --continuous", "the job runs no 'run', only: rebuild, dead-letters, delete, status, purge"),
        ("rebuild 'join/a", "is no command: No closing quotation"),
        ("", "is no command"),
    ],
)
def test_another_command_is_refused(monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    monkeypatch.setattr("sys.argv", ["kaspr-delta-task", "operation", *MANIFESTS, text, *WHERE])
    with pytest.raises(UsageError, match=message):
        task()


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["rebuild", JOIN], f"rebuild {JOIN}"),
        (["rebuild", JOIN, "--patience", "5m"], f"rebuild {JOIN} --patience 5m"),
        (["rebuild", JOIN, "--dry-run"], f"rebuild {JOIN} --dry-run"),
        (["rebuild", JOIN, "--show", "new"], f"rebuild {JOIN} --show new"),
        (["dead-letters"], "dead-letters"),
        (
            ["dead-letters", "--resource", "agent/a b", "--retry", "--only-failed"],
            "dead-letters --resource 'agent/a b' --retry --only-failed",
        ),
        (["delete", "agent", "mails", "--purge"], "delete agent mails --purge"),
    ],
)
def test_a_command_with_a_target_lets_the_job_run_it_and_prints_its_output(
    workspace: FakeWorkspace, kaspr: Kaspr, arguments: list[str], command: str
) -> None:
    with_operations(workspace, QUEUED, RUNNING, RUNNING, SUCCESS, logs="1 row out\n")
    answer = kaspr(*arguments, "--target", "prod")
    assert (answer.code, answer.out) == (0, "1 row out\n")
    assert workspace.started == [{"job_id": 6, "job_parameters": {"command": command}}]
    assert answer.err.splitlines() == [
        "order-system: operations: https://example.com/runs/90",
        *("queued", "running", "success"),
    ]


def test_a_run_that_fails_prints_why_and_the_exit_code_is_1(workspace: FakeWorkspace, kaspr: Kaspr) -> None:
    with_operations(workspace, FAILED)
    workspace.outputs[901] = {"error": "join/a is not there"}
    answer = kaspr("rebuild", JOIN, "--target", "prod", "--app", "order-system")
    assert (answer.code, answer.out) == (1, "join/a is not there\n")


def test_an_application_without_the_job_has_to_be_deployed_again(workspace: FakeWorkspace, kaspr: Kaspr) -> None:
    answer = kaspr("rebuild", JOIN, "--target", "prod")
    assert (answer.code, workspace.started) == (2, [])
    assert "prod has no job for this: deploy the application with this version" in answer.err
    with_operations(workspace, SUCCESS)
    other = {**workspace.jobs[-1]["settings"], "tags": {**workspace.jobs[-1]["settings"]["tags"], "application": "two"}}
    workspace.jobs.append({"job_id": 60, "settings": other})
    answer = kaspr("rebuild", JOIN, "--target", "prod")
    assert answer.code == 2
    assert "prod has several applications: choose one with --app (order-system, two)" in answer.err


def test_a_rebuild_in_a_workspace_takes_no_path(kaspr: Kaspr) -> None:
    answer = kaspr("rebuild", JOIN, "bundles/shop", "--target", "prod")
    assert answer.code == 2
    assert "leave PATH out" in answer.err


def test_a_rebuild_waits_for_a_running_resource_as_long_as_its_patience(
    kaspr: Kaspr, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Busy:
        def rebuild(self, resource: str, *, patience: float = 0) -> RunReport:
            if patience < 300:
                raise AlreadyRunningError(f"{resource} already runs")
            return RunReport({})

        def compare(self, resource: str, **_: float) -> str:
            return f"with {resource} itself"

        def show(self, resource: str, result: str, **_: float) -> int:
            assert (resource, result) in {(JOIN, "new"), (JOIN, "old")}
            return 3

    monkeypatch.setattr(Application, "open", lambda *_, **__: Busy())
    answer = kaspr("rebuild", JOIN, "--warehouse", tmp_path)
    assert answer.code == 1
    answer = kaspr("rebuild", JOIN, "--warehouse", tmp_path, "--patience", "5m")
    assert answer.code == 0
    assert f"{JOIN} already runs, or wait: this goes on as soon as that has ended, within 5m" in answer.err
    answer = kaspr("rebuild", JOIN, "--warehouse", tmp_path, "--dry-run")
    assert (answer.code, answer.out) == (0, f"{JOIN}, compared with {JOIN} itself\n")
    shown = [kaspr("rebuild", JOIN, "--warehouse", tmp_path, "--show", result).out for result in ("new", "old")]
    view = f"current__{delta_name(JOIN.removeprefix('join/'))}"
    assert shown == [
        f"{view} shows the new result of {JOIN}: 3 rows stand for those of the stored one\n",
        f"{view} shows the stored result\n",
    ]
    answer = kaspr("rebuild", JOIN, "--warehouse", tmp_path, "--show", "new", "--dry-run")
    assert (answer.code, answer.err) == (2, "--dry-run and --show exclude each other\n")
