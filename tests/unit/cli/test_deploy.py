from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kaspr_delta.errors import SetupError
from kaspr_delta.workspace.rights import Given
from tests.unit.cli.conftest import Kaspr
from tests.unit.workspace.server import FakeWorkspace


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a bundle, which is the working directory, without a Databricks CLI on the path."""
    (tmp_path / "databricks.yml").write_text("bundle: {name: x}\n")
    shop = tmp_path / "bundles" / "shop"
    shop.mkdir(parents=True)
    (shop / "app.yaml").write_text("apiVersion: kaspr.io/v1alpha1\nkind: KasprApp\nmetadata: {name: shop}\nspec: {}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def install_cli(bundle: Path, code: int = 0, actions: dict[str, str] | None = None, **more: str) -> Path:
    """Install a fake Databricks CLI; the file to which it writes its arguments.

    It plans the ``actions`` by the keys of resources, such as ``schemas_shop``. Its variables are two and ``more``. Its
    login is that of its environment.
    """
    written = bundle / "arguments"
    planned = {f"resources.{key.replace('_', '.')}": {"action": action} for key, action in (actions or {}).items()}
    (bundle / "plan").write_text(json.dumps({"plan": planned}) + "\n")
    variables = {"application": {"value": "shop"}, "catalog": {"value": "main"}, "developer": {"value": "ann"}}
    variables |= {name: {"value": value} for name, value in more.items()}
    (bundle / "validate").write_text(json.dumps({"variables": variables}) + "\n")
    command = bundle / "bin" / "databricks"
    command.parent.mkdir()
    command.write_text(
        f"""#!/bin/sh
if [ "$2" = run ]; then while [ "$1" != -- ]; do shift; done; shift; exec "$@"; fi
if [ "$2" = plan ] || [ "$2" = validate ]; then while read line; do echo "$line"; done <{bundle}/$2; exit; fi
for one in "$@"; do echo "$one"; done >{written}
exit {code}
"""
    )
    command.chmod(0o755)
    return written


@pytest.mark.parametrize("name", ["shop", "bundles/shop", "bundles/shop/"])
def test_the_databricks_cli_gets_the_application_as_a_variable(bundle: Path, kaspr: Kaspr, name: str) -> None:
    written = install_cli(bundle)
    answer = kaspr("deploy", name, "--target", "prod", "--profile", "work", "--var", "catalog=sales")
    assert answer.code == 0
    assert written.read_text().split() == [
        *("bundle", "deploy", "--target", "prod", "--profile", "work"),
        *("--var", "application=shop", "--var", "catalog=sales"),
    ]


def test_a_deployment_that_fails_has_the_cli_s_exit_code(bundle: Path, kaspr: Kaspr) -> None:
    install_cli(bundle, code=3)
    assert kaspr("deploy", "shop").code == 3


@pytest.mark.parametrize(
    ("name", "missing", "code", "message"),
    [
        ("shop", "bin/databricks", 1, "the Databricks CLI is not installed"),
        ("shop", "databricks.yml", 2, "there is no databricks.yml in"),
        *((name, None, 2, "APP is one of those in bundles/") for name in ("shoop", "/etc", "bundles/x")),
    ],
)
def test_a_call_without_the_cli_the_bundle_or_the_application_deploys_nothing(  # noqa: PLR0917  fixtures, and the case
    bundle: Path, kaspr: Kaspr, name: str, missing: str | None, code: int, message: str
) -> None:
    written = install_cli(bundle)
    if missing is not None:
        (bundle / missing).unlink()
    answer = kaspr("deploy", name)
    assert answer.code == code
    assert message in answer.err
    assert not written.exists()


@pytest.mark.parametrize(
    ("actions", "allowed", "refused"),
    [
        ({"jobs_shop": "delete", "apps_shop": "recreate", "schemas_shop": "update"}, [], None),
        ({"jobs_shop_permissions": "delete", "schemas_shop_grants": "delete"}, [], None),
        ({"dashboards_shop": "delete", "jobs_shop": "update"}, [], None),  # the CLI asks for it too
        ({"schemas_shop": "delete"}, [], "deletes schemas.shop, with all data"),
        ({"schemas_shop": "delete", "volumes_shop": "recreate"}, ["schemas.shop"], "deletes and creates again volumes"),
        ({"schemas_shop": "delete"}, ["schemas.shop"], None),
        ({"inventions_shop": "delete"}, [], "add --destroy-data inventions.shop"),
    ],
)
def test_only_what_holds_no_data_or_is_named_may_be_deleted(
    bundle: Path, kaspr: Kaspr, actions: dict[str, str], allowed: list[str], refused: str | None
) -> None:
    written = install_cli(bundle, actions=actions)
    answer = kaspr("deploy", "shop", *(text for name in allowed for text in ("--destroy-data", name)))
    assert (answer.code, written.exists()) == ((0, True) if refused is None else (1, False)), answer.err
    assert (refused or "") in answer.err
    deleted = any(verb in {"delete", "recreate"} and name.endswith("_shop") for name, verb in actions.items())
    assert refused is not None or ("--auto-approve" in written.read_text()) == deleted


@pytest.mark.parametrize(
    ("action", "paused", "ends", "told"),
    [
        ("update", "UNPAUSED", True, "shop: its run has ended"),
        ("update", "UNPAUSED", False, "shop: its run was cancelled"),
        ("update", "PAUSED", True, ""),
        ("skip", "UNPAUSED", True, ""),
    ],
)
def test_runs_that_never_end_give_way_to_what_is_deployed(  # noqa: PLR0917  fixtures, and the case
    bundle: Path,
    workspace: FakeWorkspace,
    kaspr: Kaspr,
    action: str,
    paused: str,
    ends: bool,
    told: str,
) -> None:
    install_cli(bundle)
    job = {"job_id": 70, "name": "shop", "continuous": {"pause_status": paused}}
    (bundle / "plan").write_text(
        json.dumps({"plan": {"resources.jobs.shop": {"action": action, "remote_state": job}}}) + "\n"
    )
    workspace.runs = [{"job_id": 70, "run_id": 7}, {"job_id": 70, "run_id": 6, "end_time": 1}]
    workspace.ending = {7} if ends else set()
    answer = kaspr("deploy", "shop", "--patience", "5s" if ends else "0s")
    assert (answer.code, workspace.cancelled) == (0, [7] if "cancelled" in told else [])
    assert answer.err.startswith(told)
    assert told or "its run" not in answer.err


@pytest.mark.usefixtures("workspace")
def test_permissions_that_somebody_gave_in_the_workspace_are_given_back(
    bundle: Path, kaspr: Kaspr, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CLI sets the bundle's list. A permission of an earlier deployment has its former value in the plan."""
    given: list[str] = []
    monkeypatch.setattr(Given, "give_back", lambda one, _: given.append(str(one)))
    install_cli(bundle)
    changes = {
        "[group_name='on call']": {"action": "update", "remote": {"level": "CAN_MANAGE_RUN", "group_name": "on call"}},
        "[user_name='left@x.y']": {
            "action": "update",
            "old": {"level": "CAN_VIEW", "user_name": "left@x.y"},
            "remote": {"level": "CAN_VIEW", "user_name": "left@x.y"},
        },
        "[user_name='owner@x.y']": {"action": "update", "remote": {"level": "IS_OWNER", "user_name": "owner@x.y"}},
        "[user_name='new@x.y']": {"action": "update", "new": {"level": "CAN_VIEW", "user_name": "new@x.y"}},
    }
    entry = {"action": "update", "remote_state": {"object_id": "/jobs/70"}, "changes": changes}
    unchanged = {"action": "skip", "remote_state": {"object_id": "/apps/shop"}, "changes": changes}
    planned = {"resources.jobs.shop.permissions": entry, "resources.apps.shop.permissions": unchanged}
    planned["resources.jobs.new.permissions"] = {"action": "update"}  # its job is not there yet
    (bundle / "plan").write_text(json.dumps({"plan": planned}) + "\n")
    answer = kaspr("deploy", "shop")
    assert (answer.code, given) == (0, ["CAN MANAGE RUN of on call on jobs/70"]), answer.err
    assert "stays: it was given in the workspace" in answer.err

    def refuse(*_: object) -> None:
        raise SetupError("not yours")

    monkeypatch.setattr(Given, "give_back", refuse)
    answer = kaspr("deploy", "shop")
    assert (answer.code, "CAN MANAGE RUN of on call on jobs/70 (not yours)" in answer.err) == (1, True)


def entry_of(principal: str, level: str, *, inherited: bool = False) -> dict[str, Any]:
    permission = {"permission_level": level, "inherited": inherited}
    return {"group_name": principal, "all_permissions": [permission]}


@pytest.mark.parametrize("code", [0, 3])
def test_permissions_that_a_deployment_sets_for_the_first_time_are_given_back_also_if_it_breaks_off(
    bundle: Path, workspace: FakeWorkspace, kaspr: Kaspr, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    given = list[str]()
    monkeypatch.setattr(Given, "give_back", lambda self, _: given.append(str(self)))
    install_cli(bundle, code)
    workspace.permissions = [
        entry_of("on call", "CAN_MANAGE_RUN"),
        entry_of("admins", "CAN_MANAGE", inherited=True),
        entry_of("makers", "IS_OWNER"),
    ]
    planned: dict[str, Any] = {
        "resources.jobs.shop": {"action": "skip", "remote_state": {"job_id": 70}},
        "resources.jobs.shop.permissions": {"action": "create"},
        "resources.jobs.new": {"action": "create"},
        "resources.jobs.new.permissions": {"action": "create"},
        "resources.apps.shop": {"action": "update", "remote_state": {"name": "shop-prod"}},
        "resources.apps.shop.permissions": {"action": "create"},
    }
    (bundle / "plan").write_text(json.dumps({"plan": planned}) + "\n")
    answer = kaspr("deploy", "shop")
    assert answer.code == code, answer.err
    assert given == ["CAN MANAGE RUN of on call on jobs/70", "CAN MANAGE RUN of on call on apps/shop-prod"]


SCHEMA = "main.dev_ann_shop"
OWN = {"kaspr.application": "shop"}


def job_on(schema: str, application: str, settings: str = "", target: str = "dev") -> dict[str, Any]:
    wheel = {"parameters": ["run", "x", "--warehouse", f"unity://{schema}/kaspr_checkpoints{settings}"]}
    tags = {"framework": "kaspr-delta", "application": application, "target": target}
    return {"job_id": 70, "settings": {"name": "a job", "tags": tags, "tasks": [{"python_wheel_task": wheel}]}}


@pytest.mark.parametrize(
    ("properties", "jobs", "runs", "refused"),
    [
        (OWN, [], [], None),
        (OWN, [job_on(SCHEMA, "shop"), job_on("main.shop", "other")], [{"job_id": 70, "end_time": 1}], None),
        (OWN, [job_on(SCHEMA, "shop")], [{"job_id": 70}], "the job a job runs"),
        (OWN, [job_on(SCHEMA, "other")], [], "is also used by the application other"),
        (OWN, [job_on(SCHEMA, "shop", target="prod")], [], "is also used by jobs of the target prod"),
        (OWN, [job_on(SCHEMA.upper(), "other")], [], "is also used by the application other"),
        ({}, [], [], "was made by others, not by shop"),
        ({"kaspr.application": "mall"}, [], [], "was made by the application mall"),
    ],
)
def test_purge_removes_the_schema_that_only_this_application_uses(  # noqa: PLR0917  fixtures, and the case
    bundle: Path,
    workspace: FakeWorkspace,
    kaspr: Kaspr,
    properties: dict[str, str],
    jobs: list[dict[str, Any]],
    runs: list[dict[str, Any]],
    refused: str | None,
) -> None:
    install_cli(bundle)
    workspace.jobs, workspace.runs = jobs, runs
    workspace.schemas = {SCHEMA: properties, "main.shop": {"kaspr.application": "shop"}}
    answer = kaspr("purge", "shop", "--target", "dev", "--yes")
    assert answer.code == (0 if refused is None else 1), answer.err
    assert (refused or f"{SCHEMA} is removed") in answer.out + answer.err
    assert (SCHEMA in workspace.schemas) == (refused is not None)
    assert "main.shop" in workspace.schemas


def test_purge_asks_first_and_knows_when_there_is_nothing(
    bundle: Path, workspace: FakeWorkspace, kaspr: Kaspr, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_cli(bundle)
    asked: list[str] = []
    monkeypatch.setattr("typer.confirm", lambda question, **_: asked.append(question))
    workspace.schemas = {SCHEMA: OWN}
    for _ in range(2):
        answer = kaspr("purge", "shop", "--target", "dev")
    assert asked == [f"Remove {SCHEMA} with its 1 tables and views, for good?"]
    assert "there is nothing to remove" in answer.out


WAREHOUSE = "unity://main.dev_ann_shop/kaspr_checkpoints"


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        (["--warehouse", WAREHOUSE, "--yes"], 1, "the job operations runs"),
        (["--warehouse", WAREHOUSE, "--own-job"], 2, "the command is purge --yes"),
        (["--warehouse", WAREHOUSE, "--own-job", "--yes"], 0, f"{SCHEMA} is removed"),
        (["--warehouse", WAREHOUSE, "--own-job", "--yes", "other"], 1, "jobs of the target dev, prod"),
        (["--warehouse", "unity://main.shop/v", "--own-job", "--yes"], 1, "was made by the application mall"),
        (["--warehouse", "wh", "--yes"], 2, "wh is no schema of Unity Catalog: remove the folder itself"),
        (["--warehouse", WAREHOUSE, "--target", "dev", "--yes"], 2, "by --target, or by --warehouse"),
        (["--yes"], 2, "by --target, or by --warehouse"),
    ],
)
def test_purge_by_a_warehouse_needs_no_bundle_and_the_job_for_operations_does_not_wait_for_itself(
    workspace: FakeWorkspace, kaspr: Kaspr, given: list[str], code: int, message: str
) -> None:
    job = job_on(SCHEMA, "shop")
    job["settings"] |= {"name": "operations", "tags": job["settings"]["tags"] | {"purpose": "operation"}}
    workspace.jobs, workspace.runs = [job], [{"job_id": 70}]
    if given[-1] == "other":
        workspace.jobs.append({**job_on(SCHEMA, "shop", target="prod"), "job_id": 71})
        given = given[:-1]
    workspace.schemas = {SCHEMA: OWN, "main.shop": {"kaspr.application": "mall"}}
    answer = kaspr("purge", "shop", *given)
    assert (answer.code, SCHEMA in workspace.schemas) == (code, code != 0), answer.err
    assert message in answer.out + answer.err
    assert "main.shop" in workspace.schemas


@pytest.mark.parametrize(("user", "refused"), [("shop", None), ("other", "is also used by the application other")])
def test_purge_removes_the_schema_of_internal_tables_too(
    bundle: Path, workspace: FakeWorkspace, kaspr: Kaspr, user: str, refused: str | None
) -> None:
    install_cli(bundle, internal_suffix="_internal")
    internal = f"{SCHEMA}_internal"
    workspace.jobs = [job_on("main.somewhere", user, "?internal=dev_ann_shop_internal&location=s3://b")]
    workspace.schemas = {internal: OWN}  # a purge that was killed had removed the other one
    answer = kaspr("purge", "shop", "--target", "dev", "--yes")
    assert (refused or f"{internal} is removed") in answer.out + answer.err
    assert (internal in workspace.schemas) == (refused is not None)
