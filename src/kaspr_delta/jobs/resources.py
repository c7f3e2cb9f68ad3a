"""Everything a bundle deploys for an application: jobs, an App, a dashboard and alerts.

None of it holds data (see ``storage``).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from databricks.bundles import core
from databricks.bundles.jobs import Job

from kaspr_delta.errors import UsageError
from kaspr_delta.grant import OWNER, READER, Grant
from kaspr_delta.jobs.alerts import alerts
from kaspr_delta.jobs.app import app_grant, app_principal, has_web_views, web_app
from kaspr_delta.jobs.dashboard import dashboard
from kaspr_delta.jobs.deployment import Deployment
from kaspr_delta.jobs.ignored import ignored_manifests
from kaspr_delta.jobs.job import JobBuilder, never_ends
from kaspr_delta.jobs.local_state import give_back_state
from kaspr_delta.jobs.operations import doctor_job, operations_job
from kaspr_delta.jobs.storage import Storage
from kaspr_delta.jobs.work import Layout, Work, task_key, work_of
from kaspr_delta.plan.builder.applications import ABSENT_APP
from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.names import delta_name
from kaspr_delta.spec.diagnostics import Finding, Location, Severity, has_errors
from kaspr_delta.spec.loader import LoadedManifests, load_path, together
from kaspr_delta.spec.revision import revision_of
from kaspr_delta.spec.values import Value, Values
from kaspr_delta.spec.values_file import read_values

# The number of resources up to which one task runs all of them by default.
_MOST_IN_ONE = 30


def load_resources(bundle: core.Bundle) -> core.Resources:
    """The resources of the application in the variable ``application``: ``databricks bundle`` calls this."""
    root = Path.cwd()
    try:
        # The CLI hands its login to Python; `${workspace.host}` is empty unless databricks.yml names the host.
        variables = {**bundle.variables, "host": os.environ.get("DATABRICKS_HOST", "")}
        deployment = Deployment.from_variables(variables, bundle.target)
        give_back_state(root, deployment.target, deployment.application, os.getppid())
        return application_resources(deployment, root)
    except UsageError as error:
        resources = core.Resources()
        resources.add_diagnostic_error(str(error))
        return resources


def application_resources(deployment: Deployment, root: Path) -> core.Resources:
    """The Databricks resources of the application whose folder is in ``bundles/`` below ``root``.

    Findings about the manifests become the bundle's own diagnostics, with their lines. If one of them is an error,
    nothing is deployed.
    """
    resources = core.Resources()
    given, _ = _given(deployment, root)
    revision = revision_of(root / deployment.folder, given)
    plans, found = build_plans(manifests_of(deployment, root))
    findings = (*ignored_manifests(root, deployment.folder, deployment.values), *found)
    for finding in findings:
        _report(resources, finding)
    if not has_errors(findings):
        _refuse_shared_schema(deployment, plans)
        for plan in plans:
            add_plan(resources, plan, deployment, revision, partial(deployment.package.code_in, root))
    return resources


def manifests_of(deployment: Deployment, root: Path) -> LoadedManifests:
    """The manifests of the application as its tasks read them, whose folder is another one in each deployment."""
    given, findings = _given(deployment, root)
    # The folder of the warehouse is that of its volume, whose schema the manifests name. Tasks have no variables of the
    # environment in which this runs.
    values = Values(given, warehouse="/Volumes", environment={})
    loaded = load_path(root / deployment.folder, deployment.folder, values)
    return together([LoadedManifests((), findings), loaded])


def _given(deployment: Deployment, root: Path) -> tuple[dict[str, Value], tuple[Finding, ...]]:
    """The values that a deployment gives to parameters, by name, and findings about their file."""
    file = f"{deployment.folder}/{deployment.values}"
    return read_values(root / file, file) if deployment.values else ({}, ())


def add_plan(
    resources: core.Resources, plan: Plan, deployment: Deployment, revision: str, code: Callable[[], str] = str
) -> None:
    """Add the Databricks resources of one plan; none if nothing in it runs or waits, and no web view is served.

    ``revision`` is that of its manifests, ``code`` gives that of the package, if an App needs it.

    They are not made apart and then merged: ``add_resources`` looks for its caller's module once for every resource,
    which takes longer than all else.
    """
    layout = layout_of(plan, deployment)
    work = work_of(plan, layout)
    served = _is_served(plan, deployment)
    if not (any(unit.resources for unit in work) or plan.tasks or plan.waiting or served):
        return
    key = bundle_key(plan.application)
    builder = builder_of(plan, deployment, revision)
    for name, job, location in jobs_of(builder, key, work, layout):
        resources.add_job(name, job, location=_core_location(location))
    if deployment.mode == "scheduled":
        for index, unit in enumerate(work):
            resources.add_location(("resources", "jobs", key, f"tasks[{index}]"), _core_location(unit.location))
    if served:
        app = web_app(plan, deployment, builder.storage.warehouse, f"{revision} {code()}".strip())
        resources.add_resource(_app_key(plan), app, location=_core_location(plan.location))
    if deployment.sql_warehouse:
        shown = dashboard(plan.application, deployment, builder.storage)
        resources.add_resource(f"{key}__dashboard", shown, location=_core_location(plan.location))
        for name, alert in alerts(plan.application, deployment, builder.storage):
            resources.add_resource(f"{key}__{name}", alert, location=_core_location(plan.location))


def builder_of(plan: Plan, deployment: Deployment, revision: str = "") -> JobBuilder:
    """The builder of a plan's jobs, whose first tasks make the grants that are missing.

    Grants are no resource of the bundle: a deployment would take away those that it does not list.
    """
    storage = Storage.of(plan, deployment)
    readers = tuple(Grant(reader.name, READER) for reader in deployment.readers)
    others = (
        *(Grant(owner.name, OWNER) for owner in deployment.owners),
        *([app_grant(_app_key(plan), plan)] if _is_served(plan, deployment) else []),
    )
    return JobBuilder(plan, deployment, storage, revision, (*readers, *others), others if storage.internal else ())


def _is_served(plan: Plan, deployment: Deployment) -> bool:
    """Whether an App serves its web views."""
    return bool(deployment.sql_warehouse) and has_web_views(plan)


def _app_key(plan: Plan) -> str:
    """The key of its App. Not that of a job, because ``bundle run KEY`` refuses a key that two resources have."""
    return f"{bundle_key(plan.application)}__app"


def jobs_of(
    builder: JobBuilder, key: str, work: tuple[Work, ...], layout: Layout
) -> Iterator[tuple[str, Job, Location]]:
    """The jobs of a plan, with their keys in the bundle and their locations."""
    made = list(_jobs_that_run(builder, key, work, layout))
    yield from made
    # Continuous jobs by group have no task for resources that wait.
    endless = any(never_ends(dict(job.as_dict())) for _, job, _ in made)
    endless |= builder.deployment.mode == "continuous" and layout != "one"
    operations = f"{key}__operations"
    yield operations, operations_job(builder, endless=endless), builder.plan.location
    keys = [name for name, *_ in made]
    app = app_principal(_app_key(builder.plan)) if _is_served(builder.plan, builder.deployment) else ""
    started = key if clock_key(key) in keys else ""
    yield f"{key}__doctor", doctor_job(builder, started, [*keys, operations], app), builder.plan.location


def clock_key(key: str) -> str:
    """The key of the job that starts the job with that key by a clock."""
    return f"{key}__by_the_clock"


def _jobs_that_run(
    builder: JobBuilder, key: str, work: tuple[Work, ...], layout: Layout
) -> Iterator[tuple[str, Job, Location]]:
    plan, deployment = builder.plan, builder.deployment
    endless = deployment.mode == "continuous" and any(unit.resources for unit in work)
    if endless:
        for unit in work:
            yield key if layout == "one" else f"{key}__{unit.key}", builder.continuous(unit), unit.location
    elif work:
        yield key, builder.scheduled(work), plan.location
        if deployment.trigger == "table_update":
            yield clock_key(key), builder.by_the_clock(key), plan.location
    # A run of everything that never ends keeps the schedules of tasks, too.
    keeps_schedules = endless and layout == "one"
    # Tasks that run by what the first tasks of their run have applied.
    later = deployment.mode == "scheduled" and any(unit.after for unit in work)
    for task in plan.tasks:
        if task.schedule is None or not keeps_schedules:
            yield f"{key}__{task_key((task.ref,))}", builder.of_task(task, applies=not later), task.location


def layout_of(plan: Plan, deployment: Deployment) -> Layout:
    """The layout that a deployment wants. By default one task runs all resources, unless there are many.

    Resources that share tables cannot run in several jobs that never end.
    """
    if deployment.layout == "default":
        return "one" if len(plan.runs) <= _MOST_IN_ONE else "group"
    return "group" if deployment.layout == "resource" and deployment.mode == "continuous" else deployment.layout


def bundle_key(application: str) -> str:
    """The key of an application's resources in the bundle, in a form that references accept.

    >>> bundle_key("order-system")
    'order_system'
    """
    name = delta_name(application)
    if re.fullmatch(r"[a-z]([a-z0-9_]*[a-z0-9])?", name):
        return name
    return f"app_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _report(resources: core.Resources, finding: Finding) -> None:
    """Report a finding as a diagnostic of the bundle. Only ``kaspr-delta validate`` shows notes.

    The same holds for the warning that an application has default settings: a strict validation treats warnings as
    errors, and the deployment is as intended.
    """
    location = _core_location(finding.location)
    if finding.severity is Severity.ERROR:
        resources.add_diagnostic_error(finding.message, detail=finding.hint or None, location=location)
    elif finding.severity is Severity.WARNING and not finding.message.startswith(ABSENT_APP):
        resources.add_diagnostic_warning(finding.message, detail=finding.hint or None, location=location)


def _refuse_shared_schema(deployment: Deployment, plans: tuple[Plan, ...]) -> None:
    if deployment.schema and len(plans) > 1:
        names = ", ".join(plan.application for plan in plans)
        msg = f"variable 'schema' names one schema, but {deployment.folder} holds several applications: {names}"
        raise UsageError(msg)


def _core_location(location: Location) -> core.Location:
    return core.Location(file=location.file, line=location.line, column=location.column)
