"""Deployment of an application with every kind of resource, every shape of join and every sort of schedule."""

from __future__ import annotations

import json
import re
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from databricks.bundles.core import Resources
from databricks.bundles.jobs import Job
from databricks.sdk.service.jobs import JobSettings

from kaspr_delta.jobs import Deployment, application_resources, resources
from kaspr_delta.jobs.job import wheel_tasks
from kaspr_delta.jobs.package import Package
from kaspr_delta.jobs.principal import Principal
from tests.unit.jobs.deployments import ALL_DEPLOYMENTS, refused_by_a_workspace

EVERY_KIND = Path(__file__).parent / "applications" / "every-kind"
TASKS = ["task_by-cron", "task_by-interval", "task_every-second", "task_once"]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle's root with the application in it."""
    shutil.copytree(EVERY_KIND, tmp_path / "bundles" / "every-kind")
    return tmp_path


def deployed(bundle: Path, **settings: Any) -> Resources:
    made = application_resources(Deployment(application="every-kind", **settings), bundle)
    assert [item.summary for item in made.diagnostics.items] == []
    return made


def grants_in(job: dict[str, Any], option: str = "--grant") -> set[str]:
    """The grants that tasks of a job make."""
    parameters = [task["python_wheel_task"]["parameters"] for task in wheel_tasks(job)]
    return {after for one in parameters for before, after in pairwise(one) if before == option}


def job_of(made: Resources, key: str) -> dict[str, Any]:
    return dict(made.jobs[key].as_dict())


def test_each_task_of_the_scheduled_job_comes_after_those_that_feed_it(bundle: Path) -> None:
    made = job_of(deployed(bundle, layout="group"), "every_kind")
    after = {task["task_key"]: [one["task_key"] for one in task.get("depends_on", [])] for task in wheel_tasks(made)}
    assert after == {
        "agent_correct__agent_ingest": [],
        "join_Views_Clicks_2_95d67a3a": [],
        "join_views-owned": [],
        "join_views-users": [],
        "table_views-per-minute": [],
        "agent_retry__agent_send": [],
        "join_orders-notes": ["agent_correct__agent_ingest"],
        "join_orders-products": ["agent_correct__agent_ingest"],
        "agent_announce": ["join_orders-products"],
        "table_turnover": ["join_orders-products"],
    }


def test_resources_that_share_tables_come_one_after_another_if_each_has_a_task(bundle: Path) -> None:
    made = job_of(deployed(bundle, layout="resource"), "every_kind")
    after = {task["task_key"]: [one["task_key"] for one in task.get("depends_on", [])] for task in wheel_tasks(made)}
    assert (after["agent_correct"], after["agent_ingest"]) == ([], ["agent_correct"])
    assert "agent_retry__agent_send" in after  # they feed one another


def test_by_default_one_task_runs_all_resources(bundle: Path) -> None:
    (task,) = job_of(deployed(bundle), "every_kind")["tasks"]
    assert (task["task_key"], "--only" in task["python_wheel_task"]["parameters"]) == ("application", False)


def test_an_application_with_many_resources_has_a_task_per_group(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "_MOST_IN_ONE", 15)
    assert len(wheel_tasks(job_of(deployed(bundle), "every_kind"))) == 10


@pytest.mark.parametrize("compute", ["serverless", "cluster"])
def test_one_job_that_never_ends_keeps_the_schedules_of_tasks(bundle: Path, compute: str) -> None:
    jobs = ["every_kind", "every_kind__doctor", "every_kind__operations", "every_kind__task_once"]
    assert sorted(deployed(bundle, mode="continuous", compute=compute).jobs) == jobs


def test_tasks_keep_their_own_jobs_where_nothing_else_runs_that_never_ends(bundle: Path) -> None:
    for kind in ("agents", "joins", "tables"):
        (bundle / "bundles" / "every-kind" / f"{kind}.yaml").unlink()
    made = application_resources(Deployment(application="every-kind", mode="continuous", sql_warehouse="w1"), bundle)
    assert {f"every_kind__{key}" for key in TASKS} <= made.jobs.keys()


def test_tasks_of_the_manifests_are_jobs_of_their_own(bundle: Path) -> None:
    made = deployed(bundle)
    assert sorted(made.jobs) == ["every_kind", *(f"every_kind__{key}" for key in ["doctor", "operations", *TASKS])]
    starts = {
        key: {part: job[part] for part in ("schedule", "trigger", "continuous") if part in job}
        for key, job in ((key, job_of(made, f"every_kind__{key}")) for key in TASKS)
    }
    assert starts == {
        "task_by-cron": {
            "schedule": {"quartz_cron_expression": "0 15 6 ? * MON,TUE,WED,THU,FRI", "timezone_id": "Europe/Berlin"}
        },
        "task_by-interval": {"trigger": {"periodic": {"interval": 90, "unit": "MINUTES"}}},
        "task_every-second": {"continuous": {"task_retry_mode": "ON_FAILURE"}},
        "task_once": {},
    }


@pytest.mark.parametrize(
    ("mode", "layout", "expected"),
    [("scheduled", "group", TASKS), ("scheduled", "one", []), ("continuous", "group", [])],
)
def test_tasks_of_the_manifests_do_not_apply_them_beside_a_run_of_several_tasks(
    bundle: Path, mode: str, layout: str, expected: list[str]
) -> None:
    made = deployed(bundle, mode=mode, layout=layout)
    parameters = {
        key: [task["python_wheel_task"]["parameters"] for task in wheel_tasks(job_of(made, key))] for key in made.jobs
    }
    leaving = {key for key, tasks in parameters.items() if any("--no-apply" in one for one in tasks)}
    assert leaving == {f"every_kind__{key}" for key in expected}
    applying = {key for key, (first, *_) in parameters.items() if first[0] == "run" and "--revision" in first} - leaving
    assert applying


def test_tasks_alone_apply_their_manifests(bundle: Path) -> None:
    for kind in ("agents", "joins", "tables", "webviews"):
        (bundle / "bundles" / "every-kind" / f"{kind}.yaml").unlink()
    (task,) = job_of(deployed(bundle), "every_kind__task_once")["tasks"]
    assert "--revision" in task["python_wheel_task"]["parameters"]
    assert "--no-apply" not in task["python_wheel_task"]["parameters"]


@pytest.mark.parametrize("compute", ["serverless", "cluster"])
def test_only_a_task_that_no_trigger_can_start_runs_without_end(bundle: Path, compute: str) -> None:
    made = deployed(bundle, compute=compute)
    endless = [
        key
        for key in TASKS
        if "--continuous" in str(job_of(made, f"every_kind__{key}")["tasks"][0]["python_wheel_task"])
    ]
    assert endless == ["task_every-second"]


def test_runs_of_a_tasks_job_are_neither_concurrent_nor_queued(bundle: Path) -> None:
    made = deployed(bundle)
    for key in TASKS:
        job = job_of(made, f"every_kind__{key}")
        assert (job["max_concurrent_runs"], job["queue"]) == (1, {"enabled": False})


def test_a_continuous_deployment_has_a_job_per_unit_of_work_and_per_task(bundle: Path) -> None:
    made = deployed(bundle, mode="continuous", layout="group")
    scheduled = wheel_tasks(job_of(deployed(bundle, layout="group"), "every_kind"))
    expected = [*(task["task_key"] for task in scheduled), *TASKS, "operations", "doctor"]
    assert sorted(made.jobs) == sorted(f"every_kind__{key}" for key in expected)


@pytest.mark.parametrize("settings", ALL_DEPLOYMENTS, ids=str)
def test_a_workspace_accepts_every_job(bundle: Path, settings: dict[str, Any]) -> None:
    for key in (made := deployed(bundle, **settings)).jobs:
        job = job_of(made, key)
        assert list(refused_by_a_workspace(job)) == []
        assert Job.from_dict(job).as_dict() == job  # type: ignore[arg-type]  # that it is one is what is tested
        settings_of_job = {name: value for name, value in job.items() if name != "permissions"}
        assert JobSettings.from_dict(settings_of_job).as_dict() == settings_of_job


@pytest.mark.parametrize("settings", ALL_DEPLOYMENTS, ids=str)
def test_the_packages_of_the_application_come_with_every_job(bundle: Path, settings: dict[str, Any]) -> None:
    for job in deployed(bundle, **settings).jobs.values():
        assert "emoji>=2,<3" in str(job.as_dict())


def test_annotations_of_the_application_set_the_schedule_of_its_job(bundle: Path) -> None:
    assert job_of(deployed(bundle), "every_kind")["schedule"] == {
        "quartz_cron_expression": "0 30 6 ? * MON-FRI",
        "timezone_id": "Europe/Berlin",
    }


def test_a_variable_wins_over_an_annotation(bundle: Path) -> None:
    made = deployed(bundle, schedule="0 0 * * * ?", timezone="Asia/Tokyo")
    assert job_of(made, "every_kind")["schedule"] == {
        "quartz_cron_expression": "0 0 * * * ?",
        "timezone_id": "Asia/Tokyo",
    }


def test_resources_and_tasks_of_the_bundle_have_locations_in_manifests(bundle: Path) -> None:
    places = {".".join(path): place for path, place in deployed(bundle, layout="group")._locations.items()}
    expected = {
        "resources.jobs.every_kind": "app.yaml:2",
        "resources.jobs.every_kind__task_once": "tasks.yaml:27",
        "resources.jobs.every_kind.tasks[0]": "agents.yaml:13",
        "resources.jobs.every_kind.tasks[5]": "agents.yaml:38",
    }
    found = {key: f"{Path(place.file).name}:{place.line}" for key, place in places.items() if key in expected}
    assert found == expected


def test_an_app_serves_the_web_views_if_a_sql_warehouse_is_given(bundle: Path) -> None:
    assert not deployed(bundle).apps
    made = deployed(bundle, sql_warehouse="abc123", target="prod")
    (app,) = (dict[str, Any](app.as_dict()) for app in made.apps.values())
    principal = "${resources.apps.every_kind__app.service_principal_client_id}"
    assert grants_in(job_of(made, "every_kind")) == {f"{principal}=USE SCHEMA,SELECT"}
    assert app["name"] == "every-kind-prod"
    assert app["lifecycle"] == {"started": True}
    assert app["resources"] == [{"name": "sql-warehouse", "sql_warehouse": {"id": "abc123", "permission": "CAN_USE"}}]
    environment = {one["name"]: one.get("value", one.get("value_from")) for one in app["config"]["env"]}
    assert environment["DATABRICKS_WAREHOUSE_ID"] == "sql-warehouse"
    assert environment["KASPR_DELTA_WAREHOUSE"] == "unity://main.every_kind/kaspr_checkpoints"
    assert re.search(r"serve bundles/every-kind .*\$DATABRICKS_APP_PORT", app["config"]["command"][-1])


def test_an_app_changes_with_its_manifests_and_its_code(bundle: Path) -> None:
    """A deployment gives an App its files only if it has changed."""

    def app() -> dict[str, Any]:
        (one,) = deployed(bundle, sql_warehouse="abc123", package=Package("dist/*.whl")).apps.values()
        return dict(one.as_dict())

    code, views = bundle / "src" / "kaspr_delta" / "new.py", bundle / "bundles" / "every-kind" / "webviews.yaml"
    code.parent.mkdir(parents=True)
    found = [app()]
    for file, text in ((code, "a = 1"), (code, "a = 2"), (views, views.read_text() + "# changed")):
        file.write_text(text)
        found.append(app())
        assert found[-1] not in found[:-1]
        assert app() == found[-1]


def test_an_app_whose_views_send_may_modify_and_create_tables(bundle: Path) -> None:
    views = bundle / "bundles" / "every-kind" / "webviews.yaml"
    send = "      - {name: tell, topicSend: {name: asked}}\n"
    views.write_text(views.read_text().replace("pipeline: [find]", "pipeline: [find, tell]") + send)
    (grant,) = grants_in(job_of(deployed(bundle, sql_warehouse="abc123"), "every_kind"))
    assert grant.endswith("=USE SCHEMA,SELECT,MODIFY,CREATE TABLE")


def test_viewers_may_use_the_app_and_operators_manage_it(bundle: Path) -> None:
    made = deployed(
        bundle,
        sql_warehouse="abc123",
        viewers=(Principal.of("analysts"),),
        operators=(Principal.of("ann@example.com"),),
    )
    (app,) = (dict[str, Any](app.as_dict()) for app in made.apps.values())
    assert app["permissions"] == [
        {"level": "CAN_USE", "group_name": "analysts"},
        {"level": "CAN_MANAGE", "user_name": "ann@example.com"},
    ]


@pytest.mark.parametrize(("asked", "scopes"), [(True, ["sql"]), (False, None)])
def test_the_app_gets_tokens_of_visitors_only_with_read_as_visitor(
    bundle: Path, asked: bool, scopes: list[str] | None
) -> None:
    made = deployed(bundle, sql_warehouse="abc123", read_as_visitor=asked)
    (app,) = (dict[str, Any](app.as_dict()) for app in made.apps.values())
    assert app.get("user_api_scopes") == scopes


def test_first_tasks_grant_what_readers_and_owners_lack(bundle: Path) -> None:
    people: dict[str, Any] = {"readers": (Principal.of("analysts"),), "owners": (Principal.of("ann@example.com"),)}
    made = job_of(deployed(bundle, **people, layout="group"), "every_kind")
    assert grants_in(made, "--grant-internal") == set()
    apart = job_of(deployed(bundle, **people, internal_suffix="_internal"), "every_kind")
    assert grants_in(apart) == grants_in(made)
    assert grants_in(apart, "--grant-internal") == {"ann@example.com=ALL PRIVILEGES,MANAGE"}
    assert grants_in(made) == {"analysts=USE SCHEMA,SELECT", "ann@example.com=ALL PRIVILEGES,MANAGE"}
    tasks = wheel_tasks(made)
    granting = [task for task in tasks if "--grant" in task["python_wheel_task"]["parameters"]]
    assert granting == [task for task in tasks if not task.get("depends_on")]


def test_what_is_deployed_holds_no_data(bundle: Path) -> None:
    made = deployed(bundle, sql_warehouse="abc123", readers=(Principal.of("analysts"),), location="s3://lake")
    assert {path[1] for path in made._locations} == {"jobs", "apps", "dashboards"}


@pytest.mark.parametrize(
    ("settings", "warehouse", "app"),
    [
        ({}, "unity://main.every_kind/kaspr_checkpoints", "every-kind-dev"),
        (
            {"location": "s3://lake", "internal_suffix": "_i"},
            "unity://main.every_kind/kaspr_checkpoints?internal=every_kind_i&location=s3://lake/main/every_kind/every_kind",
            "every-kind-dev",
        ),
        ({"schema": "shop", "catalog": "c"}, "unity://c.shop/kaspr_checkpoints", "every-kind-dev"),
        ({"schema_prefix": "staging_"}, "unity://main.staging_every_kind/kaspr_checkpoints", "every-kind-dev"),
        ({"developer": "ann_lee"}, "unity://main.dev_ann_lee_every_kind/kaspr_checkpoints", "every-kind-dev-ann-lee"),
        (
            {"location": "s3://lake/", "schema": "shop"},
            "unity://main.shop/kaspr_checkpoints?location=s3://lake/main/shop/every_kind",
            "every-kind-dev",
        ),
        (
            {"location": "s3://lake", "developer": "ann", "target": "staging"},
            "unity://main.dev_ann_every_kind/kaspr_checkpoints?location=s3://lake/main/dev_ann_every_kind/every_kind",
            "every-kind-staging-ann",
        ),
    ],
)
def test_schema_folder_and_app_have_names_of_the_application_and_the_developer(
    bundle: Path, settings: dict[str, str], warehouse: str, app: str
) -> None:
    made = deployed(bundle, sql_warehouse="abc123", **settings)
    assert all(warehouse in task["python_wheel_task"]["parameters"] for task in wheel_tasks(job_of(made, "every_kind")))
    assert [one.as_dict()["name"] for one in made.apps.values()] == [app]


@pytest.mark.parametrize(
    ("who", "run_as"),
    [
        ("", None),
        ("ann@example.com", {"user_name": "ann@example.com"}),
        ("11111111-2222-3333-4444-555555555555", {"service_principal_name": "11111111-2222-3333-4444-555555555555"}),
    ],
)
def test_jobs_run_as_the_named_identity(bundle: Path, who: str, run_as: dict[str, str] | None) -> None:
    settings = Deployment.from_variables({"application": "every-kind", "run_as": who})
    jobs = application_resources(settings, bundle).jobs
    assert {str(job.as_dict().get("run_as")) for job in jobs.values()} == {str(run_as)}


def test_an_application_without_a_kasprapp_is_deployed_without_a_warning(bundle: Path) -> None:
    (bundle / "bundles" / "every-kind" / "app.yaml").unlink()
    assert job_of(deployed(bundle), "every_kind")["schedule"]["timezone_id"] == "UTC"


def test_a_waiting_resource_is_a_warning_of_the_bundle(bundle: Path) -> None:
    (bundle / "bundles" / "every-kind" / "joins.yaml").unlink()
    made = application_resources(Deployment(application="every-kind", layout="group"), bundle)
    assert {item.severity.value for item in made.diagnostics.items} == {"warning"}
    assert "agent 'announce' waits" in made.diagnostics.items[0].summary
    tasks = {task["task_key"]: task for task in job_of(made, "every_kind")["tasks"]}
    assert "agent_announce" not in tasks
    waiting = tasks.pop("waiting")
    assert not waiting.get("depends_on")
    assert not any("waiting" in str(task.get("depends_on")) for task in tasks.values())
    assert "--only agent/announce" in " ".join(waiting["python_wheel_task"]["parameters"])


def test_alerts_and_a_dashboard_look_at_the_tables_of_the_application(bundle: Path) -> None:
    looks = {"sql_warehouse": "w1", "alert_schedule": "0 0 * * * ?"}
    made = deployed(
        bundle, **looks, alert_silence="6h", alert_delay="1h", notify=("ann@example.com",), webhooks=("hook",)
    )
    assert len(deployed(bundle, **looks).alerts) == 2
    found = {key: dict[str, Any](alert.as_dict()) for key, alert in made.alerts.items()}
    names = ("behind", "dead_letters", "silent", "stopped")
    assert sorted(found) == [f"every_kind__{name}" for name in names]
    for alert in found.values():
        assert "FROM `main`.`every_kind`.`_kaspr_" in alert["query_text"]
        assert "run_as" not in alert
        subscribers = alert["evaluation"]["notification"]["subscriptions"]
        assert subscribers == [{"user_email": "ann@example.com"}, {"destination_id": "hook"}]
    (board,) = (dict[str, Any](board.as_dict()) for board in made.dashboards.values())
    assert (board["warehouse_id"], board["dataset_catalog"], board["dataset_schema"]) == ("w1", "main", "every_kind")
    content = json.loads(board["serialized_dashboard"])
    widgets = [one["widget"] for one in content["pages"][0]["layout"]]
    assert {one["queries"][0]["query"]["datasetName"] for one in widgets} == {
        one["name"] for one in content["datasets"]
    }
    assert not deployed(bundle, sql_warehouse="w1").alerts  # each look costs


@pytest.mark.parametrize(
    ("principal", "run_as"),
    [
        ("0a1b2c3d-0000-1111-2222-333344445555", {"service_principal_name": "0a1b2c3d-0000-1111-2222-333344445555"}),
        ("ann@example.com", {"user_name": "ann@example.com"}),
        ("a group", None),  # alerts cannot run as one
    ],
)
def test_alerts_read_as_the_identity_that_owns_the_tables(
    bundle: Path, principal: str, run_as: dict[str, str] | None
) -> None:
    made = deployed(bundle, sql_warehouse="w1", alert_schedule="0 0 * * * ?", run_as=Principal.of(principal))
    assert {str(dict[str, Any](alert.as_dict()).get("run_as")) for alert in made.alerts.values()} == {str(run_as)}


@pytest.mark.parametrize(("schedule", "hours"), [("0 0 * * * ?", 2), ("0 0 9 * * ?", 25), ("0 0 9 ? * MON-FRI", 73)])
def test_an_alert_looks_as_far_back_as_the_look_before(bundle: Path, schedule: str, hours: int) -> None:
    made = deployed(bundle, sql_warehouse="w1", alert_schedule=schedule)
    letters, stopped = (
        dict[str, Any](made.alerts[f"every_kind__{name}"].as_dict()) for name in ("dead_letters", "stopped")
    )
    assert letters["query_text"].endswith(f"WHERE at > current_timestamp() - INTERVAL {hours} HOUR")
    # Letters of two looks are two mails; what lasts is said once a day.
    again = [alert["evaluation"]["notification"]["retrigger_seconds"] for alert in (letters, stopped)]
    assert again == [1, 24 * 60 * 60]


def test_an_application_of_tables_and_web_views_has_an_app(bundle: Path) -> None:
    folder = bundle / "bundles" / "every-kind"
    for file in folder.glob("*.yaml"):
        if file.name not in {"app.yaml", "webviews.yaml", "tables.yaml", "values.yaml"}:
            file.unlink()
    made = application_resources(Deployment(application="every-kind", sql_warehouse="w1"), bundle)
    assert sorted(made.apps) == ["every_kind__app"]


def test_without_web_views_there_is_no_app(bundle: Path) -> None:
    (bundle / "bundles" / "every-kind" / "webviews.yaml").unlink()
    assert not deployed(bundle, sql_warehouse="abc123").apps


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"0 30 6 ? * MON-FRI"', '"30 6 * * 1-5"', "has 5 fields, expected 6 or 7"),
        ("Europe/Berlin", "Europe/Atlantis", "is no time zone"),
        ("databricks.kaspr.io/schedule", "databricks.kaspr.io/shedule", "is no annotation of kaspr-delta"),
    ],
)
def test_a_wrong_annotation_is_an_error_at_its_line(bundle: Path, old: str, new: str, message: str) -> None:
    app = bundle / "bundles" / "every-kind" / "app.yaml"
    app.write_text(app.read_text().replace(old, new))
    made = application_resources(Deployment(application="every-kind"), bundle)
    (error,) = made.diagnostics.items
    assert message in error.summary
    assert error.location is not None
    assert Path(error.location.file).name == "app.yaml"
    assert error.location.line in {7, 8}
    assert not made.jobs


def test_an_annotation_for_jobs_on_another_kind_is_an_error(bundle: Path) -> None:
    tasks = bundle / "bundles" / "every-kind" / "tasks.yaml"
    annotated = 'metadata: {name: once, annotations: {databricks.kaspr.io/schedule: "0 0 6 * * ?"}, labels'
    tasks.write_text(tasks.read_text().replace("metadata: {name: once, labels", annotated))
    (error,) = application_resources(Deployment(application="every-kind"), bundle).diagnostics.items
    assert "has an effect on a KasprApp only" in error.summary
