"""The Databricks CLI, called for one application of the bundle in this folder."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kaspr_delta.errors import NotFoundError, SetupError, UsageError
from kaspr_delta.workspace.rights import Given

if TYPE_CHECKING:
    from typing_extensions import Self

    from kaspr_delta.jobs import Deployment

_BUNDLE = "databricks.yml"
_APPLICATIONS = "bundles"
# Kinds of resources that hold no data: every other kind counts as one that does.
_WITHOUT_DATA = frozenset(
    {"alerts", "apps", "cluster_policies", "clusters", "dashboards", "external_locations", "genie_spaces"}
    | {"instance_pools", "job_runs", "jobs", "model_serving_endpoints", "quality_monitors", "sql_warehouses"}
)
# Of this level there is one, whom a deployment changes where another identity deploys.
_OWNER = "IS_OWNER"
_LOSSES = {"delete": "deletes", "recreate": "deletes and creates again"}

BundleAppArgument = Annotated[str, typer.Argument(metavar="APP", help="A folder in bundles/, by name or by path.")]
BundleTargetOption = Annotated[str, typer.Option("--target", metavar="TARGET", help="A target of the bundle.")]
VarOption = Annotated[
    list[str] | None, typer.Option("--var", metavar="NAME=VALUE", help="A variable of the bundle; may be repeated.")
]


@dataclass(frozen=True, slots=True)
class BundleOptions:
    """The options of a command for a folder of manifests as it is deployed. Without a ``target`` none is asked for."""

    path: Path
    target: str | None
    profile: str | None
    var: tuple[str, ...]

    def deployment(self) -> Deployment:
        """The deployment by the variables of the target, or by their defaults; ``var`` comes before both.

        Raises UsageError and, for a target without the Databricks CLI, SetupError.
        """
        from kaspr_delta.jobs import Deployment

        if self.target is not None:
            bundle = BundleCli.of(str(self.path), self.target, self.profile, self.var)
            return Deployment.from_variables(bundle.variables(), self.target)
        given, known = dict(map(_named, self.var)), set(Deployment.__slots__) - {"target"}
        for name in given.keys() - known:
            raise UsageError(str(NotFoundError.among("variable", name, known)))
        return Deployment.from_variables(given)


@dataclass(frozen=True, slots=True)
class BundleCli:
    """The command ``databricks bundle`` with the options of one application and target."""

    command: str
    options: tuple[str, ...]

    @classmethod
    def of(cls, application: str, target: str, profile: str | None, var: Iterable[str] | None) -> Self:
        """The CLI for an application. Raises UsageError away from a bundle, and SetupError without the CLI."""
        folder = _folder(application)
        command = shutil.which("databricks")
        if command is None:
            raise SetupError(
                "the Databricks CLI is not installed, and this needs it: see"
                " https://docs.databricks.com/dev-tools/cli/install"
            )
        options = ["--target", target, *(["--profile", profile] if profile else [])]
        options += [text for variable in (f"application={folder}", *(var or ())) for text in ("--var", variable)]
        return cls(command, tuple(options))

    def run(self, verb: str, *more: str) -> int:
        """Run a command of the CLI; its exit code."""
        # The arguments are a list: no shell reads them.
        return subprocess.run([self.command, "bundle", verb, *self.options, *more], check=False).returncode  # noqa: S603

    def answer(self, verb: str) -> dict[str, Any]:
        """The JSON that a command of the CLI prints. Exits with the CLI's exit code if it fails."""
        done = subprocess.run(  # noqa: S603  as above
            [self.command, "bundle", verb, *self.options, "--output", "json"],
            check=False,
            stdout=subprocess.PIPE,
        )
        if done.returncode:
            raise typer.Exit(done.returncode)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def variables(self) -> dict[str, Any]:
        """The values of the bundle's variables in the target. Exits as ``answer`` does."""
        return {name: one.get("value", "") for name, one in (self.answer("validate").get("variables") or {}).items()}


def deletions(plan: dict[str, Any]) -> dict[str, str]:
    """The resources that a deployment would delete, as ``kind.key``, with the verb for it.

    ``plan`` is the answer of ``bundle plan``.
    """
    found = {}
    for key, entry in (plan.get("plan") or {}).items():
        _, kind, *name = key.split(".")
        # A longer key is of a part, such as the permissions of a job.
        if len(name) == 1 and entry.get("action") in _LOSSES:
            found[f"{kind}.{name[0]}"] = _LOSSES[entry["action"]]
    return found


def with_data(deleted: Iterable[str]) -> list[str]:
    """Those of the resources, ``kind.key``, that hold data."""
    return [name for name in deleted if name.partition(".")[0] not in _WITHOUT_DATA]


def restarted_jobs(plan: dict[str, Any]) -> dict[int, str]:
    """The jobs that never end, are not paused, and are changed by a deployment: their names by id."""
    found = {}
    for entry in (plan.get("plan") or {}).values():
        job = entry.get("remote_state") or {}
        endless = job.get("continuous")
        if endless is not None and endless.get("pause_status") != "PAUSED" and entry.get("action") == "update":
            found[int(job["job_id"])] = job.get("name", "")
    return found


def given_by_others(plan: dict[str, Any]) -> list[Given]:
    """The permissions that somebody gave in the workspace, and that a deployment takes: it sets the bundle's list.

    A permission that an earlier deployment gave, and this one does not, has its former value in the plan.
    """
    found = []
    for key, entry in (plan.get("plan") or {}).items():
        address = (entry.get("remote_state") or {}).get("object_id", "").strip("/")
        if not key.endswith(".permissions") or entry.get("action") != "update" or not address:
            continue
        kind, id_ = address.split("/", 1)
        taken = (one for one in (entry.get("changes") or {}).values() if not one.keys() & {"old", "new"})
        remote = (one.get("remote") or {} for one in taken)
        found += [Given.of(kind, id_, one) for one in remote if one.get("level", _OWNER) != _OWNER]
    return found


def first_permissions(plan: dict[str, Any]) -> list[tuple[str, str]]:
    """The jobs and Apps that are there, and whose permissions a deployment sets for the first time: kind and id.

    The CLI does not look at the permissions that they have.
    """
    entries, found = plan.get("plan") or {}, list[tuple[str, str]]()
    for key, entry in entries.items():
        owner = key.removesuffix(".permissions")
        if owner == key or entry.get("action") != "create":
            continue
        remote = (entries.get(owner) or {}).get("remote_state") or {}
        kind = owner.split(".")[1]
        id_ = remote.get({"jobs": "job_id", "apps": "name"}.get(kind, ""))
        if id_:
            found.append((kind, str(id_)))
    return found


def _named(variable: str) -> tuple[str, str]:
    name, equals, value = variable.partition("=")
    if not equals:
        raise UsageError(f"--var {variable}: expected NAME=VALUE")
    return name, value


def _folder(application: str) -> str:
    """The application as the bundle's variable names it: its folder below ``bundles/``. Raises UsageError."""
    if not Path(_BUNDLE).is_file():
        raise UsageError(f"there is no {_BUNDLE} in {Path.cwd()}: go to the folder that holds it")
    path = Path(application)
    name = path.relative_to(_APPLICATIONS) if path.parts[:1] == (_APPLICATIONS,) else path
    if name.is_absolute() or not (_APPLICATIONS / name).exists():
        raise UsageError(f"there is no folder {_APPLICATIONS}/{name}: APP is one of those in {_APPLICATIONS}/")
    return name.as_posix()
