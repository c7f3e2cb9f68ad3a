from __future__ import annotations

from typing import Any

import pytest
from databricks.sdk.service.jobs import JobSettings
from hypothesis import assume, given
from hypothesis import strategies as st

from kaspr_delta import __version__
from kaspr_delta.jobs import Deployment, work_of
from kaspr_delta.jobs.job import JobBuilder
from kaspr_delta.plan.definition.application import Plan
from tests.unit.jobs.deployments import ALL_DEPLOYMENTS, refused_by_a_workspace
from tests.unit.jobs.plans import agent, join, plan, plans

SHOP = plan(
    agent("ingest-orders", topic="raw-orders", tables=("orders",)),
    agent("correct-orders", topic="corrections", tables=("orders",)),
    join("orders-products", "orders", "products"),
    agent("enrich", join="orders-products", description="Adds totals"),
    packages=("scipy==1.16",),
)
DEPLOYMENTS = [Deployment(**settings) for settings in ALL_DEPLOYMENTS]


def jobs(of: Plan, deployment: Deployment) -> list[dict[str, Any]]:
    builder = JobBuilder(of, deployment, "unity://main.shop/checkpoints")
    work = work_of(of)
    made = [builder.scheduled(work)] if deployment.mode == "scheduled" else [builder.continuous(unit) for unit in work]
    return [dict(job.as_dict()) for job in made]


def names(items: list[dict[str, Any]], key: str) -> list[str]:
    return [item[key] for item in items]


def test_scheduled_work_is_one_job_with_a_task_per_group_and_join() -> None:
    (job,) = jobs(SHOP, Deployment())
    assert names(job["tasks"], "task_key") == [
        "agent_correct-orders__agent_ingest-orders",
        "join_orders-products",
        "agent_enrich",
    ]
    assert job["schedule"] == {"quartz_cron_expression": "0 0/15 * * * ?", "timezone_id": "UTC"}
    assert (job["max_concurrent_runs"], job["queue"]) == (1, {"enabled": True})


def test_continuous_work_is_a_job_per_group_and_join() -> None:
    made = jobs(SHOP, Deployment(mode="continuous"))
    assert names(made, "name") == [
        "shop: agent/correct-orders + agent/ingest-orders",
        "shop: join/orders-products",
        "shop: agent/enrich",
    ]
    assert all(job["max_concurrent_runs"] == 1 and len(job["tasks"]) == 1 for job in made)


def test_a_task_runs_the_command_run_for_its_resources() -> None:
    (job,) = jobs(SHOP, Deployment(application="shop-folder"))
    assert job["tasks"][0]["python_wheel_task"] == {
        "package_name": "kaspr_delta",
        "entry_point": "kaspr-delta-task",
        "parameters": [
            "run",
            "${workspace.file_path}/bundles/shop-folder",
            "--app",
            "shop",
            "--only",
            "agent/correct-orders",
            "--only",
            "agent/ingest-orders",
            "--warehouse",
            "unity://main.shop/checkpoints",
        ],
    }


@pytest.mark.parametrize(
    ("deployment", "endless"),
    [
        (Deployment(mode="scheduled", compute="cluster"), False),
        (Deployment(mode="continuous", compute="cluster"), True),
        (Deployment(mode="continuous", compute="serverless"), False),
    ],
)
def test_only_a_cluster_runs_without_end(deployment: Deployment, endless: bool) -> None:
    for job in jobs(SHOP, deployment):
        for task in job["tasks"]:
            assert ("--continuous" in task["python_wheel_task"]["parameters"]) is endless


@given(plans(), st.sampled_from(DEPLOYMENTS))
def test_a_workspace_accepts_the_jobs_of_any_plan(any_plan: Plan, deployment: Deployment) -> None:
    assume(any_plan.stages)
    for job in jobs(any_plan, deployment):
        assert list(refused_by_a_workspace(job)) == []


@pytest.mark.parametrize("compute", ["serverless", "cluster"])
@pytest.mark.parametrize(
    ("package", "named", "library", "of_apps"),
    [
        ("dist/*.whl", "dist/*.whl", "whl", ".[databricks,serve]"),
        ("kaspr_delta-1-py3-none-any.whl", None, "whl", "./kaspr_delta-1-py3-none-any.whl[databricks,serve]"),
        ("./wheels/k.whl", None, "whl", "./wheels/k.whl[databricks,serve]"),
        ("", f"kaspr-delta=={__version__}", "pypi", f"kaspr-delta[databricks,serve]=={__version__}"),
        ("kaspr_delta[local] ~= 1.2", None, "pypi", "kaspr-delta[databricks,serve]~= 1.2"),
        ("kaspr-delta @ https://x/k.whl", None, "pypi", "kaspr-delta[databricks,serve]@ https://x/k.whl"),
    ],
)
def test_the_package_and_those_of_the_application_are_installed(
    compute: str, package: str, named: str | None, library: str, of_apps: str
) -> None:
    deployment = Deployment.from_variables({"compute": compute, "package": package})
    expected = named or package
    (job,) = jobs(SHOP, deployment)
    if deployment.serverless:
        assert job["environments"][0]["spec"]["dependencies"] == [expected, "scipy==1.16"]
    first = {"whl": expected} if library == "whl" else {"pypi": {"package": expected}}
    for task in job["tasks"]:
        installed = task.get("libraries")
        assert installed == (None if deployment.serverless else [first, {"pypi": {"package": "scipy==1.16"}}])
    assert deployment.package.of_apps == of_apps


def test_continuous_jobs_leave_retries_and_order_to_databricks() -> None:
    for job in jobs(SHOP, Deployment(mode="continuous")):
        assert "pause_status" not in job["continuous"]
        assert not {"max_retries", "depends_on", "timeout_seconds"} & job["tasks"][0].keys()


def test_scheduled_tasks_have_retries_and_a_timeout() -> None:
    (job,) = jobs(SHOP, Deployment(retries=5, timeout_minutes=20))
    assert all((task["max_retries"], task["timeout_seconds"]) == (5, 1_200) for task in job["tasks"])
    assert "pause_status" not in job["schedule"]


def test_a_cluster_has_a_fixed_size() -> None:
    (job,) = jobs(SHOP, Deployment(compute="cluster", workers=3))
    (cluster,) = (one["new_cluster"] for one in job["job_clusters"])
    assert cluster["num_workers"] == 3
    assert not {"autoscale", "spark_conf"} & cluster.keys()


def test_a_cluster_without_workers_is_a_single_node() -> None:
    (job,) = jobs(SHOP, Deployment(compute="cluster", workers=0))
    (cluster,) = (one["new_cluster"] for one in job["job_clusters"])
    assert cluster["num_workers"] == 0
    assert cluster["spark_conf"]["spark.databricks.cluster.profile"] == "singleNode"
    assert cluster["custom_tags"] == {**job["tags"], "ResourceClass": "SingleNode"}
    assert JobSettings.from_dict(job).as_dict() == job


def test_jobs_have_no_notifications_or_permissions_by_default() -> None:
    (job,) = jobs(SHOP, Deployment())
    assert not {"email_notifications", "notification_settings", "permissions"} & job.keys()


@pytest.mark.parametrize("mode", ["scheduled", "continuous"])
def test_failures_and_a_large_backlog_are_notified_by_mail(mode: Any) -> None:
    for job in jobs(SHOP, Deployment(mode=mode, notify=("ann@example.com",), backlog_bytes=5)):
        assert job["email_notifications"] == {
            "on_failure": ["ann@example.com"],
            "on_streaming_backlog_exceeded": ["ann@example.com"],
        }
        assert job["health"]["rules"] == [{"metric": "STREAMING_BACKLOG_BYTES", "op": "GREATER_THAN", "value": 5}]


def test_a_backlog_limit_of_0_gives_no_health_rule() -> None:
    (job,) = jobs(SHOP, Deployment(backlog_bytes=0))
    assert "health" not in job


def test_viewers_may_view_jobs_and_operators_may_manage_runs() -> None:
    deployment = Deployment.from_variables({
        "viewers": "everybody, ann@example.com",
        "operators": "12345678-9abc-def0-1234-56789abcdef0",
    })  # fmt: skip
    (job,) = jobs(SHOP, deployment)
    assert job["permissions"] == [
        {"group_name": "everybody", "level": "CAN_VIEW"},
        {"user_name": "ann@example.com", "level": "CAN_VIEW"},
        {"service_principal_name": "12345678-9abc-def0-1234-56789abcdef0", "level": "CAN_MANAGE_RUN"},
    ]


def test_jobs_are_tagged_with_framework_application_and_target() -> None:
    for job in jobs(SHOP, Deployment(target="prod")):
        assert job["tags"] == {"framework": "kaspr-delta", "application": "shop", "target": "prod"}


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda d: f"{d.mode}-{d.compute}")
def test_the_jobs_api_reads_every_job_unchanged(deployment: Deployment) -> None:
    for job in jobs(SHOP, deployment):
        assert JobSettings.from_dict(job).as_dict() == job
