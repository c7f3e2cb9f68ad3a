from __future__ import annotations

from typing import Any

import pytest

from kaspr_delta.errors import UsageError
from kaspr_delta.grant import Grant
from kaspr_delta.jobs import Deployment, Storage
from kaspr_delta.jobs.job import JobBuilder
from kaspr_delta.jobs.operations import doctor_job, operations_job
from kaspr_delta.jobs.principal import Principal
from tests.unit.jobs.plans import agent, plan

SHOP = plan(agent("ingest", topic="raw"), packages=("scipy==1.16",))


def job(*, endless: bool = False, **settings: Any) -> dict[str, Any]:
    deployment = Deployment(application="shop-folder", **settings)
    builder = JobBuilder(SHOP, deployment, Storage.of(SHOP, deployment), "r1")
    return dict(operations_job(builder, endless=endless).as_dict())


def test_the_job_runs_the_command_in_its_parameter_when_somebody_starts_it() -> None:
    made = job(timeout_minutes=30)
    (task,) = made["tasks"]
    assert task["python_wheel_task"]["parameters"] == [
        "operation",
        "${workspace.file_path}/bundles/shop-folder",
        *("--origin", "bundles/shop-folder", "--revision", "r1"),
        "{{job.parameters.command}}",
        *("--app", "shop", "--warehouse", "unity://main.shop/kaspr_checkpoints"),
    ]
    assert made["parameters"] == [{"name": "command", "default": "status"}]
    assert not made.keys() & {"schedule", "trigger", "continuous"}
    assert (task["timeout_seconds"], "max_retries" in task) == (1_800, False)
    assert made["performance_target"] == "PERFORMANCE_OPTIMIZED"
    assert (made["max_concurrent_runs"], made["queue"]) == (1, {"enabled": True})
    assert made["tags"] == {
        "framework": "kaspr-delta",
        "application": "shop",
        "target": "dev",
        "manifests": "r1",
        "purpose": "operation",
    }


@pytest.mark.parametrize(
    ("compute", "runs_on"),
    [("default", "environment_key"), ("serverless", "environment_key"), ("cluster", "job_cluster_key")],
)
def test_beside_continuous_jobs_it_runs_on_serverless_compute_unless_all_run_on_clusters(
    compute: str, runs_on: str
) -> None:
    (task,) = job(mode="continuous", compute=compute)["tasks"]
    assert runs_on in task


HOURLY, DAILY, OFTEN = "0 0 * * * ?", "0 0 6 * * ?", "0 0/10 * * * ?"


@pytest.mark.parametrize(
    ("settings", "options", "quartz", "zone"),
    [
        ({}, "--grace 1h --within 2h", HOURLY, "UTC"),
        ({"waiting_grace": "5m", "timezone": "Asia/Tokyo"}, "--grace 5m --within 2h", HOURLY, "Asia/Tokyo"),
        ({"mode": "continuous"}, "--grace 1h --within 2h", HOURLY, "UTC"),
        ({"mode": "continuous", "compute": "cluster"}, "--grace 1h --within 25h", DAILY, "UTC"),
        ({"check_schedule": OFTEN}, "--grace 1h --within 2h", OFTEN, "UTC"),
        ({"check_schedule": "0 0 0/4 * * ?"}, "--grace 1h --within 5h", "0 0 0/4 * * ?", "UTC"),
    ],
)
def test_beside_runs_that_never_end_it_looks_for_unhealthy_resources(
    settings: dict[str, Any], options: str, quartz: str, zone: str
) -> None:
    made = job(endless=True, **settings)
    assert made["parameters"] == [{"name": "command", "default": f"status --exit-code {options}"}]
    assert made["schedule"] == {"quartz_cron_expression": quartz, "timezone_id": zone}


@pytest.mark.parametrize("settings", [{"waiting": "note"}, {"endless": False}])
def test_otherwise_runs_tell_it_themselves_or_nobody_wants_to_know(settings: dict[str, Any]) -> None:
    made = job(**{"endless": True, **settings})
    assert ("schedule" in made, made["parameters"][0]["default"]) == (False, "status")
    with pytest.raises(UsageError, match="nothing is checked unless a run never ends"):
        job(**{"endless": True, **settings}, check_schedule=HOURLY)


@pytest.mark.parametrize(("mode", "runs_on"), [("scheduled", "environment_key"), ("continuous", "job_cluster_key")])
def test_two_doctors_begin_at_once_on_the_compute_of_the_application(mode: Any, runs_on: str) -> None:
    deployment = Deployment(application="shop-folder", mode=mode, internal_suffix="_internal")
    grants, internal = (Grant("team", ("SELECT",)),), (Grant("ann", ("MANAGE",)),)
    builder = JobBuilder(SHOP, deployment, Storage.of(SHOP, deployment), "r1", grants, internal)
    made = dict[str, Any](doctor_job(builder).as_dict())
    assert [task["task_key"] for task in made["tasks"]] == ["doctor", "another_doctor"]
    machines = [task.get("job_cluster_key") for task in made["tasks"]]
    assert machines == ([None, None] if builder.deployment.serverless else ["kaspr", "another_doctor"])
    assert [one["job_cluster_key"] for one in made.get("job_clusters", [])] == [one for one in machines if one]
    for task in made["tasks"]:
        assert runs_on in task
        assert "depends_on" not in task
        assert task["python_wheel_task"]["parameters"] == [
            *(
                "--app",
                "shop",
                "--warehouse",
                "unity://main.shop/kaspr_checkpoints?internal=shop_internal",
                "doctor",
                "--in-pair",
                "--notes",
                "{{job.parameters.notes}}",
            ),
            *("--grant", "team=SELECT", "--grant-internal", "ann=MANAGE", "${workspace.file_path}/bundles/shop-folder"),
        ]
    assert not made.keys() & {"schedule", "trigger", "continuous"}
    assert made["parameters"] == [{"name": "notes", "default": "pass"}]


def doctor_options(started: str = "", **settings: Any) -> list[str]:
    """The options of a doctor beside the warehouse, the application and its manifests."""
    deployment = Deployment(**settings)
    builder = JobBuilder(SHOP, deployment, Storage.of(SHOP, deployment), "r1")
    tasks = dict[str, Any](doctor_job(builder, started).as_dict())["tasks"]
    (options,) = {tuple(task["python_wheel_task"]["parameters"][8:-1]) for task in tasks}
    return [*options]


def test_a_doctor_probes_the_rights_on_the_job_that_is_started_and_on_the_sql_warehouse_of_alerts() -> None:
    assert doctor_options("shop") == ["--started-job", "${resources.jobs.shop.id}"]
    shown = ["--dashboard-warehouse", "w1"]
    assert doctor_options(sql_warehouse="w1") == shown
    alerting = {"sql_warehouse": "w1", "alert_schedule": HOURLY}
    assert doctor_options(**alerting) == ["--sql-warehouse", "w1", *shown]
    assert doctor_options(**alerting, run_as=Principal("group", "team")) == shown


def test_a_doctor_knows_who_looks_at_the_dashboard_the_jobs_and_the_service_principal_of_the_app() -> None:
    ann, team = Principal.of("ann@example.com"), Principal.of("team")
    looking = doctor_options(sql_warehouse="w1", viewers=(ann, team), operators=(team,))
    assert looking == ["--dashboard-warehouse", "w1", "--watcher", "ann@example.com", "--watcher", "team"]
    deployment = Deployment()
    builder = JobBuilder(SHOP, deployment, Storage.of(SHOP, deployment), "r1")
    first, _ = dict[str, Any](doctor_job(builder, "", ["shop", "shop__operations"], "1-2").as_dict())["tasks"]
    assert first["python_wheel_task"]["parameters"][8:-1] == [
        *("--job", "${resources.jobs.shop.id}", "--job", "${resources.jobs.shop__operations.id}"),
        *("--app-principal", "1-2"),
    ]
