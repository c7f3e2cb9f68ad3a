from __future__ import annotations

from typing import Any

import pytest
from databricks.sdk.service.jobs import JobSettings
from hypothesis import assume, given
from hypothesis import strategies as st

from kaspr_delta import __version__
from kaspr_delta.errors import UsageError
from kaspr_delta.jobs import Deployment, Storage, work_of
from kaspr_delta.jobs.job import JobBuilder, wheel_tasks
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
    builder = JobBuilder(of, deployment, Storage.of(of, deployment), "r1")
    work = work_of(of, "group" if deployment.layout == "default" else deployment.layout)
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
        "verdict",
    ]
    assert job["schedule"] == {"quartz_cron_expression": "0 0/15 * * * ?", "timezone_id": "UTC"}
    assert (job["max_concurrent_runs"], job["queue"]) == (1, {"enabled": False})


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
    wheel_task = job["tasks"][0]["python_wheel_task"]
    assert (wheel_task["package_name"], wheel_task["entry_point"]) == ("kaspr_delta", "kaspr-delta-task")
    assert " ".join(wheel_task["parameters"]) == (
        "run ${workspace.file_path}/bundles/shop-folder --origin bundles/shop-folder --revision r1 --app shop"
        " --only agent/correct-orders --only agent/ingest-orders --warehouse unity://main.shop/kaspr_checkpoints"
        " --retries 2 --waiting fail --grace 1h --all-dead-letters fail"
    )


def test_later_tasks_run_the_manifests_that_the_first_ones_applied() -> None:
    (job,) = jobs(SHOP, Deployment())
    tasks = wheel_tasks(job)
    with_manifests = ["--origin" in task["python_wheel_task"]["parameters"] for task in tasks]
    assert with_manifests == [not task.get("depends_on") for task in tasks] == [True, False, False]


def test_a_task_that_fails_stops_none_behind_it_and_the_last_one_fails_without_compute() -> None:
    (job,) = jobs(SHOP, Deployment())
    *others, verdict = job["tasks"]
    assert [task.get("run_if") for task in others] == [None, "ALL_DONE", "ALL_DONE"]
    assert names(verdict["depends_on"], "task_key") == names(others, "task_key")
    assert "run_if" not in verdict  # ALL_SUCCESS
    assert verdict["condition_task"] == {"left": "1", "op": "EQUAL_TO", "right": "1"}
    assert not {"environment_key", "job_cluster_key", "max_retries"} & verdict.keys()


def test_tasks_that_follow_no_other_one_need_no_verdict() -> None:
    alone = plan(agent("a", topic="x"), agent("b", topic="y"))
    (job,) = jobs(alone, Deployment())
    assert names(job["tasks"], "task_key") == ["agent_a", "agent_b"]


def test_a_run_without_end_stops_when_something_else_is_deployed() -> None:
    for job in jobs(SHOP, Deployment(mode="continuous", every="1m")):
        parameters = job["tasks"][0]["python_wheel_task"]["parameters"]
        assert parameters[-5:] == [
            "--continuous",
            "--every",
            "1m",
            "--until-changed",
            "${workspace.state_path}/resources.json",
        ]


@pytest.mark.parametrize(
    ("deployment", "endless"),
    [
        (Deployment(mode="scheduled", compute="cluster"), False),
        (Deployment(mode="continuous", compute="cluster"), True),
        (Deployment(mode="continuous", compute="serverless"), True),
    ],
)
def test_continuous_jobs_never_end(deployment: Deployment, endless: bool) -> None:
    for job in jobs(SHOP, deployment):
        for task in wheel_tasks(job):
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
    for task in wheel_tasks(job):
        installed = task.get("libraries")
        assert installed == (None if deployment.serverless else [first, {"pypi": {"package": "scipy==1.16"}}])
    assert deployment.package.of_apps == of_apps


def test_continuous_jobs_leave_retries_and_order_to_databricks() -> None:
    for job in jobs(SHOP, Deployment(mode="continuous")):
        assert "pause_status" not in job["continuous"]
        assert not {"max_retries", "depends_on", "timeout_seconds"} & job["tasks"][0].keys()


def test_scheduled_tasks_have_a_timeout_and_try_again_by_themselves() -> None:
    (job,) = jobs(SHOP, Deployment(retries=5, timeout_minutes=20))
    for task in wheel_tasks(job):
        parameters = task["python_wheel_task"]["parameters"]
        assert (task["max_retries"], task["timeout_seconds"]) == (0, 1_200)
        assert parameters[parameters.index("--retries") + 1] == "5"
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
    assert (cluster["custom_tags"]["ResourceClass"], cluster["custom_tags"]["application"]) == ("SingleNode", "shop")
    assert JobSettings.from_dict(job).as_dict() == job


@pytest.mark.parametrize(
    ("host", "workers", "node_type", "spot"),
    [
        ("https://dbc-1.cloud.databricks.com", 2, "i3.xlarge", ("aws_attributes", "SPOT_WITH_FALLBACK", 1)),
        (
            "https://adb-1.2.azuredatabricks.net",
            2,
            "Standard_DS3_v2",
            ("azure_attributes", "SPOT_WITH_FALLBACK_AZURE", 1),
        ),
        (
            "https://1.2.gcp.databricks.com",
            0,
            "n1-standard-4",
            ("gcp_attributes", "PREEMPTIBLE_WITH_FALLBACK_GCP", 0),
        ),
    ],
)
def test_nodes_are_those_of_the_cloud(host: str, workers: int, node_type: str, spot: tuple[str, str, int]) -> None:
    (job,) = jobs(SHOP, Deployment(compute="cluster", host=host, workers=workers, spot=True))
    cluster = job["job_clusters"][0]["new_cluster"]
    attributes, availability, kept = spot
    assert cluster["node_type_id"] == node_type
    assert cluster[attributes] == {"availability": availability, "first_on_demand": kept}


def test_a_policy_may_fix_the_nodes() -> None:
    (job,) = jobs(SHOP, Deployment(compute="cluster", policy_id="p1"))
    cluster = job["job_clusters"][0]["new_cluster"]
    assert (cluster["policy_id"], cluster["apply_policy_default_values"]) == ("p1", True)
    assert "node_type_id" not in cluster
    (job,) = jobs(SHOP, Deployment(compute="cluster", policy_id="p1", node_type="i3.2xlarge"))
    assert job["job_clusters"][0]["new_cluster"]["node_type_id"] == "i3.2xlarge"


def test_nodes_of_a_pool_have_no_type() -> None:
    (job,) = jobs(SHOP, Deployment(compute="cluster", instance_pool_id="pool"))
    cluster = job["job_clusters"][0]["new_cluster"]
    assert (cluster["instance_pool_id"], "node_type_id" in cluster) == ("pool", False)


def test_serverless_jobs_have_a_performance_target_an_environment_and_a_policy() -> None:
    wanted = Deployment(base_environment="/Workspace/env.yaml", usage_policy_id="u1")
    (job,) = jobs(SHOP, wanted)
    assert (job["performance_target"], job["budget_policy_id"]) == ("STANDARD", "u1")
    spec = job["environments"][0]["spec"]
    assert (spec["base_environment"], "environment_version" in spec) == ("/Workspace/env.yaml", False)


def test_a_job_starts_when_others_have_written_and_by_the_clock_all_the_same() -> None:
    wanted = Deployment(trigger="table_update")
    builder = JobBuilder(SHOP, wanted, Storage.of(SHOP, wanted), "r1")
    with pytest.raises(UsageError, match="reads no table that others write"):  # this plan declares no topics
        builder.scheduled(work_of(SHOP))
    clock: dict[str, Any] = dict(builder.by_the_clock("shop").as_dict())
    assert clock["schedule"]["quartz_cron_expression"] == "0 0 3 * * ?"
    assert clock["tasks"][0]["run_job_task"] == {"job_id": "${resources.jobs.shop.id}"}
    assert not {"environments", "job_clusters"} & clock.keys()


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


def test_failures_and_a_large_backlog_go_to_the_destinations_of_the_workspace() -> None:
    (job,) = jobs(SHOP, Deployment(webhooks=("hook",)))
    assert job["webhook_notifications"] == {
        "on_failure": [{"id": "hook"}],
        "on_streaming_backlog_exceeded": [{"id": "hook"}],
    }
    assert job["notification_settings"]["no_alert_for_canceled_runs"]


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


def test_jobs_are_tagged_with_framework_application_target_and_manifests() -> None:
    tags = {"framework": "kaspr-delta", "application": "shop", "target": "prod", "manifests": "r1"}
    for job in jobs(SHOP, Deployment(target="prod")):
        assert job["tags"] == tags
