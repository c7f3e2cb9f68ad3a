from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from databricks.bundles.core import Bundle, Resources, Severity

from kaspr_delta.errors import UsageError
from kaspr_delta.jobs import Deployment, application_resources, load_resources
from kaspr_delta.jobs.local_state import give_back_state
from kaspr_delta.jobs.resources import add_plan
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.spec.revision import revision_of
from tests.unit.jobs.plans import agent, plan

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("DATABRICKS_BUNDLE_TMP", str(tmp_path / ".databricks" / "bundle"))


def tasks_of(resources: Resources) -> list[dict[str, Any]]:
    """The tasks of the only job beside those for people."""
    (job,) = (job for key, job in resources.jobs.items() if not key.endswith(("__operations", "__doctor")))
    settings: dict[str, Any] = dict(job.as_dict())
    return list(settings["tasks"])


def deployed(shop: Plan, **settings: Any) -> Resources:
    add_plan(made := Resources(), shop, Deployment(**settings), "r1")
    return made


def test_order_system_is_one_job_with_its_agents_and_its_join() -> None:
    made = load_resources(Bundle(target="dev", variables={"layout": "group"}))
    assert not made.diagnostics.items
    assert [task["task_key"] for task in tasks_of(made)] == [
        "agent_ingest-orders",
        "agent_ingest-products",
        "join_orders-products-join",
        "agent_process-enriched-orders",
        "verdict",
    ]


@pytest.mark.parametrize("name", ["1-shop", "shop_", "_shop", "größe", "9"])
def test_any_name_of_an_application_gives_a_valid_key_of_its_job(name: str) -> None:
    key, *others = deployed(plan(agent("a", topic="x"), application=name)).jobs
    assert others == [f"{key}__operations", f"{key}__doctor"]
    assert re.fullmatch(r"[a-zA-Z]+([-_]*[a-zA-Z0-9]+)*", key)  # the CLI's own rule


def test_an_application_without_agents_and_joins_has_no_jobs() -> None:
    assert not deployed(plan()).jobs


def test_errors_in_manifests_are_errors_of_the_bundle(tmp_path: Path) -> None:
    folder = tmp_path / "bundles" / "shop"
    folder.mkdir(parents=True)
    (folder / "app.yaml").write_text("apiVersion: kaspr.io/v1alpha1\nkind: KasprAp\nmetadata: {name: shop}\nspec: {}\n")
    made = application_resources(Deployment(application="shop"), tmp_path)
    (error,) = made.diagnostics.items
    assert error.severity is Severity.ERROR
    assert error.location is not None
    assert (Path(error.location.file).name, error.location.line) == ("app.yaml", 2)
    assert not made.jobs


def test_a_wrong_variable_is_an_error_of_the_bundle() -> None:
    (error,) = load_resources(Bundle(target="dev", variables={"schedule": "daily"})).diagnostics.items
    assert error.summary.startswith("variable 'schedule'")


def test_two_applications_in_a_folder_cannot_share_a_schema(tmp_path: Path) -> None:
    folder = tmp_path / "bundles" / "both"
    folder.mkdir(parents=True)
    document = "apiVersion: kaspr.io/v1alpha1\nkind: KasprApp\nmetadata: {name: NAME}\nspec: {}\n"
    (folder / "apps.yaml").write_text("---\n".join(document.replace("NAME", name) for name in ("one", "two")))
    with pytest.raises(UsageError, match="several applications: one, two"):
        application_resources(Deployment(application="both", schema="shared"), tmp_path)


def test_each_application_of_a_checkout_keeps_the_state_of_its_own_deployment(tmp_path: Path) -> None:
    place = tmp_path / ".databricks" / "bundle" / "prod"

    def loaded(application: str) -> str:
        """The state that the CLI finds after it loaded the resources; then it deploys and writes its own."""
        load_resources(Bundle(target="prod", variables={"application": application}))
        found = (place / "resources.json").read_text() if (place / "resources.json").exists() else ""
        (place / "resources.json").write_text(f"state of {application}")
        (place / "sync-snapshots").mkdir(exist_ok=True)
        (place / "sync-snapshots" / application).touch()
        return found

    place.mkdir(parents=True)
    (place / "resources.json").write_text("state of an earlier version")
    assert [loaded(name) for name in ("order-system", "order-system", "event-counting", "order-system")] == [
        "",
        "state of order-system",
        "",
        "state of order-system",
    ]
    assert [file.name for file in (place / "sync-snapshots").iterdir()] == ["order-system"]
    load_resources(Bundle(target="dev", variables={"application": "event-counting"}))
    assert (place / "resources.json").read_text() == "state of order-system"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="the words of processes are files only on Linux")
@pytest.mark.parametrize(("verb", "refused"), [("deploy", True), ("run", True), ("validate", False)])
def test_no_application_gets_its_state_while_the_cli_works_on_another_one(
    tmp_path: Path, verb: str, *, refused: bool
) -> None:
    owner = tmp_path / ".databricks" / "bundle" / "prod" / "kaspr-application"
    words = ["databricks-1.12", "-c", "import time; print(flush=True); time.sleep(20)", "bundle", verb]
    with subprocess.Popen(words, executable=sys.executable, stdout=subprocess.PIPE) as command:  # noqa: S603
        assert command.stdout is not None
        command.stdout.readline()  # before that it may have no words yet
        give_back_state(tmp_path, "prod", "shop", command.pid)
        give_back_state(tmp_path, "prod", "shop", 2)  # a check of the same application, which has ended
        give_back_state(tmp_path, "dev", "desk", 3)
        refusal = pytest.raises(UsageError, match=rf"application 'shop' in this folder \(process {command.pid}\)")
        with refusal if refused else contextlib.nullcontext():
            give_back_state(tmp_path, "prod", "desk", 4)
        assert owner.read_text().startswith("shop\n" if refused else "desk\n")
        command.kill()
    give_back_state(tmp_path, "prod", "desk", 4)
    assert owner.read_text() == "desk\n4"


@pytest.mark.parametrize("written", ["", "desk", "desk\n7\n8"])
def test_a_note_of_the_owner_is_read_as_any_version_or_a_kill_left_it(tmp_path: Path, written: str) -> None:
    place = tmp_path / ".databricks" / "bundle" / "prod"
    place.mkdir(parents=True)
    (place / "kaspr-application").write_text(written)
    (place / "resources.json").write_text("{}")
    give_back_state(tmp_path, "prod", "desk", 9)
    assert (place / "kaspr-application").read_text() == "desk\n9"
    assert (place / "resources.json").exists() is bool(written)


def test_node_types_are_those_of_the_cloud_to_which_the_cli_has_logged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_HOST", "https://adb-1.2.azuredatabricks.net")
    on_clusters = {"compute": "cluster", "application": "order-system"}
    made = load_resources(Bundle(target="dev", variables=on_clusters))
    assert "Standard_DS3_v2" in str(made.jobs["order_system"].as_dict())
    wrong = load_resources(Bundle(target="dev", variables={**on_clusters, "node_type": "i3.xlarge"}))
    assert "is no node type of Azure" in wrong.diagnostics.items[0].summary


def test_other_manifests_change_the_jobs(tmp_path: Path) -> None:
    folder = tmp_path / "bundles" / "shop"
    shutil.copytree(ROOT / "bundles" / "order-system", folder)
    file = folder / "agents.yaml"

    def tag() -> str:
        job = application_resources(Deployment(application="shop"), tmp_path).jobs["order_system"]
        tags: dict[str, str] = dict(job.as_dict())["tags"]  # type: ignore[assignment]  # as the Jobs API has them
        return tags["manifests"]

    before = tag()
    assert tag() == before == revision_of(folder, {})
    file.write_text(file.read_text() + "\n# a comment\n")
    assert tag() != before


@pytest.fixture
def valued(tmp_path: Path) -> Path:
    """A root with an application whose web view and agent are those of order-desk, and that needs a value."""
    folder = tmp_path / "bundles" / "desk"
    shutil.copytree(ROOT / "bundles" / "order-desk", folder)
    app = next(file for file in folder.glob("*.yaml") if "kind: KasprApp" in file.read_text())
    app.write_text(app.read_text().replace("kind: KasprApp\n", "kind: KasprApp\n# ${unread}\n", 1))
    (folder / "more.yaml").write_text(
        "apiVersion: kaspr.io/v1alpha1\nkind: KasprTable\nmetadata: {name: lake, labels: {kaspr.io/app: order-desk}}\n"
        "spec:\n  description: ${place}\n"
    )
    (folder / "values.prod.yaml").write_text("place: there\n")
    return tmp_path


def test_the_file_of_values_is_read_by_the_deployment_by_its_jobs_and_by_its_app(valued: Path) -> None:
    (missing,) = application_resources(Deployment(application="desk"), valued).diagnostics.items
    assert missing.summary.startswith("the parameter 'place' has no value")
    chosen = Deployment(application="desk", values="values.prod.yaml", sql_warehouse="abc")
    made = application_resources(chosen, valued)
    assert not [one for one in made.diagnostics.items if one.severity is Severity.ERROR]
    files = "${workspace.file_path}/bundles/desk/values.prod.yaml"
    for job in made.jobs.values():
        for task in dict(job.as_dict())["tasks"]:  # type: ignore[attr-defined]  # as the Jobs API has them
            parameters = task.get("python_wheel_task", {}).get("parameters", [])
            assert parameters[parameters.index("--values") + 1] == files
    (app,) = made.apps.values()
    assert "--values bundles/desk/values.prod.yaml" in str(app.as_dict())


def test_paths_and_the_environment_of_the_deployer_do_not_reach_jobs(
    valued: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACE", "here")
    file = valued / "bundles" / "desk" / "more.yaml"
    file.write_text(file.read_text().replace("${place}", "${env:PLACE}"))
    (missing,) = application_resources(Deployment(application="desk"), valued).diagnostics.items
    assert missing.summary.startswith("the environment has no variable 'PLACE'")
    source = "source: {table: ./lake, key: [id]}"
    file.write_text(file.read_text().replace("description: ${env:PLACE}", source))
    (relative,) = application_resources(Deployment(application="desk"), valued).diagnostics.items
    assert relative.summary.startswith("'./lake' is relative to a manifest that lies elsewhere each time")
