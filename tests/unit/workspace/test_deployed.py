from __future__ import annotations

from datetime import datetime, timezone

import pytest

from kaspr_delta.errors import NotFoundError, SetupError
from kaspr_delta.workspace import Workspace
from tests.unit.workspace.server import JOIN, FakeWorkspace


@pytest.mark.usefixtures("workspace")
def test_only_jobs_of_the_target_are_listed() -> None:
    jobs = Workspace.connect().jobs("prod")
    assert [(one.name, one.application, one.starts) for one in jobs] == [
        ("order-system", "order-system", "0 0/15 * * * ? UTC"),
        ("order-system: task/report", "order-system", "every 90 minutes"),
        ("page-views: join/j", "page-views", "continuous (paused)"),
    ]
    (dev,) = Workspace.connect().jobs("dev")
    assert (dev.name, dev.starts) == ("[dev ann] order-system", "0 0/15 * * * ? UTC (paused)")


def test_on_a_development_target_users_see_only_their_own_jobs(workspace: FakeWorkspace) -> None:
    workspace.user = "bob@example.com"
    (dev,) = Workspace.connect().jobs("dev")
    assert dev.name == "[dev bob] order-system"
    workspace.user = "carla@example.com"
    with pytest.raises(NotFoundError, match=r"carla@example\.com has deployed nothing there: databricks bundle deploy"):
        Workspace.connect().jobs("dev")


@pytest.mark.usefixtures("workspace")
def test_each_job_has_its_newest_runs_with_their_tasks() -> None:
    jobs = Workspace.connect().jobs("prod", "order-system", runs=2)
    assert [[run.id for run in one.runs] for one in jobs] == [[13, 12], []]
    newest = jobs[0].runs[0]
    assert (newest.state, newest.message, newest.trigger) == ("FAILED", "Workload failed", "PERIODIC")
    assert (newest.started, newest.seconds) == (datetime(2027, 3, 1, 6, 30, tzinfo=timezone.utc), 75.0)
    assert [(task.key, task.resources, task.failed) for task in newest.tasks] == [
        ("agent_ingest", ("agent/ingest",), False),
        ("join", (JOIN,), True),
        ("agent_enrich", ("agent/enrich",), False),
    ]


def test_a_run_that_goes_on_has_no_duration_and_a_queued_one_has_not_started(workspace: FakeWorkspace) -> None:
    (job,) = Workspace.connect().jobs("prod", "page-views")
    assert (job.runs[0].state, job.runs[0].seconds, job.runs[0].failed) == ("RUNNING", None, False)
    workspace.runs[3] |= {"start_time": 0, "state": {"life_cycle_state": "QUEUED"}}
    (job,) = Workspace.connect().jobs("prod", "page-views")
    assert (job.runs[0].state, job.runs[0].started, job.runs[0].seconds) == ("QUEUED", None, None)


@pytest.mark.parametrize(
    ("target", "application", "message"),
    [
        ("prd", None, "no deployed target 'prd' (did you mean 'prod'?)"),
        ("dev", "page-views", "no deployed application 'page-views' (there are: order-system)"),
    ],
)
@pytest.mark.usefixtures("workspace")
def test_an_unknown_target_or_application_is_not_found(target: str, application: str | None, message: str) -> None:
    with pytest.raises(NotFoundError, match=r".*") as error:
        Workspace.connect().jobs(target, application)
    assert str(error.value) == message


def test_a_refused_request_is_an_error_with_the_workspaces_message(workspace: FakeWorkspace) -> None:
    workspace.refuses = True
    with pytest.raises(SetupError, match="you may not look at jobs"):
        Workspace.connect().jobs("prod")


def test_without_credentials_the_error_names_the_login_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_CONFIG_FILE", "/dev/null")
    for name in ("DATABRICKS_HOST", "DATABRICKS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SetupError, match="databricks auth login"):
        Workspace.connect()
