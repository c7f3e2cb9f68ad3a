"""``kaspr-delta deploy`` and ``purge``: an application in a workspace, and the data that it leaves there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kaspr_delta.cli.bundle import (
    BundleAppArgument,
    BundleCli,
    BundleTargetOption,
    VarOption,
    deletions,
    first_permissions,
    given_by_others,
    restarted_jobs,
    with_data,
)
from kaspr_delta.cli.deployed import ProfileOption, TargetOption
from kaspr_delta.cli.progress import note
from kaspr_delta.errors import SetupError, UsageError
from kaspr_delta.plan.builder.build import runnable_plans
from kaspr_delta.plan.names import delta_name
from kaspr_delta.spec.durations import interval

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient

    from kaspr_delta.jobs import Storage
    from kaspr_delta.workspace import DeployedSchema
    from kaspr_delta.workspace.rights import Given


def deploy(
    application: BundleAppArgument,
    target: BundleTargetOption = "dev",
    profile: ProfileOption = None,
    var: VarOption = None,
    destroy_data: Annotated[
        list[str] | None,
        typer.Option("--destroy-data", metavar="KIND.KEY", help="Let it delete this resource; may be repeated."),
    ] = None,
    patience: Annotated[
        str, typer.Option(metavar="DURATION", help="Cancel runs that never end if they have not ended by then.")
    ] = "3m",
) -> None:
    """Deploy an application's jobs and its App: `databricks bundle deploy` for one application.

    The bundle holds no data of an application. Where a resource with data was added to it, such as a schema, and the
    CLI's plan is to delete it or to create it anew, nothing is deployed unless --destroy-data names it. What holds no
    data, such as a job or a dashboard, is deleted without a question.

    Permissions on jobs and the App that somebody gave in the workspace are given back after the deployment, which takes
    them.

    Runs that never end are restarted if the deployment changes them: they end after the batches under way. One whose
    batch takes longer than --patience is cancelled, and the next run begins that batch again.

    It is run where databricks.yml is, and needs the Databricks CLI. The exit code is that of the CLI.

    For example:

        kaspr-delta deploy order-system --target prod --var catalog=main
    """
    from kaspr_delta.workspace import Restart, Workspace
    from kaspr_delta.workspace.rights import given_on

    seconds = interval("--patience", patience) / 1_000
    bundle = BundleCli.of(application, target, profile, var)
    allowed = set(destroy_data or ())
    plan = bundle.answer("plan")
    deleted = deletions(plan)
    lost = [name for name in with_data(deleted) if name not in allowed]
    if lost:
        listed = ", ".join(f"{deleted[name]} {name}" for name in lost)
        options = " ".join(f"--destroy-data {name}" for name in lost)
        raise SetupError(
            f"nothing was deployed: the deployment {listed}, with all data. If that is meant, add {options}"
        )
    jobs, others, unseen = restarted_jobs(plan), given_by_others(plan), first_permissions(plan)
    client = Workspace.of_target(target, profile).client if jobs or others or unseen else None
    if client is not None:
        others += [given for address in unseen for given in given_on(client, *address)]
    before = Restart(client, jobs) if client is not None and jobs else None
    # The CLI asks for more than data, such as a dashboard, and nobody answers it in a workflow.
    code = bundle.run("deploy", *(["--auto-approve"] if deleted else []))
    # A deployment that broke off may have taken them too.
    refused = _give_back(others, client) if client is not None else []
    if before is not None and code == 0:
        before.wait(note, seconds)
    if refused:
        raise SetupError("it was deployed, and took permissions that others gave: " + "; ".join(refused))
    raise typer.Exit(code)


def _give_back(others: Sequence[Given], client: WorkspaceClient) -> list[str]:
    """Give back the permissions that a deployment took. Returns those for which that was refused, with the errors."""
    refused = []
    for given in others:
        try:
            given.give_back(client)
            note(f"{given} stays: it was given in the workspace. viewers and operators name those who keep it anyway")
        except SetupError as error:
            refused.append(f"{given} ({error})")
    return refused


def purge(
    application: Annotated[str, typer.Argument(metavar="APP", help="A folder in bundles/; with --warehouse its name.")],
    target: TargetOption = None,
    profile: ProfileOption = None,
    var: VarOption = None,
    warehouse: Annotated[
        str | None, typer.Option("--warehouse", metavar="UNITY", help="The data, away from the bundle that made them.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    own_job: Annotated[bool, typer.Option("--own-job", hidden=True)] = False,
) -> None:
    """Remove the schema of a deployed application with all its tables and checkpoints, for good.

    Nothing else does: neither a deployment nor `databricks bundle destroy` removes data. A schema that others made, or
    that another application's jobs use, is left as it is, and so is one while a job of it runs. Files of external
    tables stay in their folder.

    A warehouse, as in `unity://main.order_system/kaspr_checkpoints`, names data whose deployment is gone, such as those
    of an application that was renamed. The job for operations does the same: `purge --yes` is its command.

    For example:

        kaspr-delta purge order-system --target dev
        kaspr-delta purge order-desk --warehouse unity://main.order_desk/kaspr_checkpoints
    """
    from kaspr_delta.workspace import DeployedSchema, Workspace

    if (target is None) == (warehouse is None):
        raise UsageError("name the data by --target, or by --warehouse")
    if own_job and not yes:
        raise UsageError("it removes all data, and nobody can be asked here: the command is purge --yes")
    if target is not None:
        storages = _storages(BundleCli.of(application, target, profile, var), target)
        workspace = Workspace.of_target(target, profile)
    else:
        storages = [_storage_in(warehouse or "", application)]
        workspace = Workspace.connect(profile)
    client = workspace.client
    found = [(one, DeployedSchema(client, schema)) for one in storages for schema in one.full_names]
    there = []
    for storage, deployed in found:  # all of them before the first one goes
        made_by = deployed.made_by()
        if made_by is None:
            typer.echo(f"{deployed.name} does not exist: there is nothing to remove")
            continue
        _refuse_others(deployed, storage.application, made_by, target, own_job=own_job)
        there.append((storage, deployed))
    for storage, deployed in there:
        if not yes:
            of = f"{deployed.name} with its {deployed.tables()} tables and views"
            typer.confirm(f"Remove {of}, for good?", abort=True)
        deployed.remove()
        left = f"; the files of its tables stay in {storage.location}" if storage.location else ""
        typer.echo(f"{deployed.name} is removed{left}")


def _storages(bundle: BundleCli, target: str) -> list[Storage]:
    """The storage of each application of the folder. Raises ManifestError."""
    from kaspr_delta.jobs import Deployment, Storage, manifests_of

    deployment = Deployment.from_variables(bundle.variables(), target)
    return [Storage.of(plan, deployment) for plan in runnable_plans(manifests_of(deployment, Path()))]


def _storage_in(warehouse: str, application: str) -> Storage:
    """The storage that a warehouse names. Raises UsageError for a folder."""
    from kaspr_delta.jobs import Storage
    from kaspr_delta.storage.namespace import UnityNamespace, Warehouse

    namespace = Warehouse(warehouse).namespace(delta_name(application))
    if not isinstance(namespace, UnityNamespace):
        raise UsageError(f"{warehouse} is no schema of Unity Catalog: remove the folder itself")
    names = application, namespace.catalog, namespace.name
    return Storage(*names, location=namespace.root or "", internal=namespace.internal_name or "")


def _refuse_others(
    deployed: DeployedSchema, application: str, made_by: str, target: str | None, *, own_job: bool
) -> None:
    """Raise SetupError if data of others would go, or if a job is at work, other than the ``own_job`` that asks.

    Jobs of another ``target`` are others; without one so are all jobs, because the deployment is said to be gone.
    """
    if made_by != delta_name(application):
        maker = f"the application {made_by}" if made_by else "others"
        raise SetupError(
            f"{deployed.name} was made by {maker}, not by {application}: drop the tables that you no longer want"
        )
    users = deployed.users()
    for user in users:
        if user.application != application:
            raise SetupError(
                f"{deployed.name} is also used by the application {user.application}: drop the tables that you no"
                " longer want"
            )
        if user.runs and not (own_job and user.operates):
            raise SetupError(
                f"the job {user.job} runs: cancel its run, or remove it with databricks bundle destroy, and purge again"
            )
    # The job that asks is one of them.
    others = {user.target for user in users} - {target}
    if len(others) > (1 if own_job else 0):
        raise SetupError(
            f"{deployed.name} is also used by jobs of the target {', '.join(sorted(others))}: remove these with"
            " databricks bundle destroy first, or leave the data to them"
        )
