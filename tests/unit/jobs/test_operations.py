from __future__ import annotations

from typing import Any

import pytest

from kaspr_delta.jobs import Deployment, Storage
from kaspr_delta.jobs.job import JobBuilder
from kaspr_delta.jobs.operations import operations_job
from tests.unit.jobs.plans import agent, plan

SHOP = plan(agent("ingest", topic="raw"), packages=("scipy==1.16",))


def job(**settings: Any) -> dict[str, Any]:
    deployment = Deployment(application="shop-folder", **settings)
    return dict(operations_job(JobBuilder(SHOP, deployment, Storage.of(SHOP, deployment), "r1")).as_dict())


def test_the_job_runs_the_command_in_its_parameter_when_somebody_starts_it() -> None:
    made = job(timeout_minutes=30)
    (task,) = made["tasks"]
    assert task["python_wheel_task"]["parameters"] == [
        "operation",
        "${workspace.file_path}/bundles/shop-folder",
        "bundles/shop-folder",
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


@pytest.mark.parametrize(
    ("settings", "command", "at"),
    [
        ({}, "status --exit-code --grace 1h", ("0 0 * * * ?", "UTC")),
        (
            {"waiting_grace": "5m", "timezone": "Asia/Tokyo"},
            "status --exit-code --grace 5m",
            ("0 0 * * * ?", "Asia/Tokyo"),
        ),
        ({"compute": "cluster"}, "status --exit-code --grace 1h", ("0 0 6 * * ?", "UTC")),
        ({"check_schedule": "0 0/10 * * * ?"}, "status --exit-code --grace 1h", ("0 0/10 * * * ?", "UTC")),
        ({"waiting": "note"}, "status", None),
        ({"compute": "serverless"}, "status", None),  # its runs end, and fail by themselves
    ],
)
def test_beside_runs_that_never_end_it_looks_for_unhealthy_resources(
    settings: dict[str, Any], command: str, at: tuple[str, str] | None
) -> None:
    made = job(mode="continuous", **settings)
    assert made["parameters"] == [{"name": "command", "default": command}]
    found = made.get("schedule")
    assert (found and tuple(found[part] for part in ("quartz_cron_expression", "timezone_id"))) == at
