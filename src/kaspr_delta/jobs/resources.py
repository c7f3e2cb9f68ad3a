"""Everything a bundle deploys for an application: its jobs and its App. None of it holds data (see ``storage``)."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from databricks.bundles import core

from kaspr_delta.errors import UsageError
from kaspr_delta.grant import OWNER, READER, Grant
from kaspr_delta.jobs.app import app_grant, has_web_views, web_app
from kaspr_delta.jobs.deployment import Deployment
from kaspr_delta.jobs.job import JobBuilder
from kaspr_delta.jobs.operations import operations_job
from kaspr_delta.jobs.storage import Storage
from kaspr_delta.jobs.work import task_key, work_of
from kaspr_delta.plan.builder.applications import ABSENT_APP
from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.names import delta_name
from kaspr_delta.spec.diagnostics import Finding, Location, Severity, has_errors
from kaspr_delta.spec.loader import load_path


def application_resources(deployment: Deployment, root: Path) -> core.Resources:
    """The Databricks resources of the application whose folder is in ``bundles/`` below ``root``.

    Findings about the manifests become the bundle's own diagnostics, with their lines. If one of them is an error,
    nothing is deployed.
    """
    resources = core.Resources()
    plans, findings = build_plans(load_path(root / deployment.folder))
    for finding in findings:
        _report(resources, finding)
    if not has_errors(findings):
        _refuse_shared_schema(deployment, plans)
        for plan in plans:
            add_plan(resources, plan, deployment)
    return resources


def add_plan(resources: core.Resources, plan: Plan, deployment: Deployment) -> None:
    """Add the Databricks resources of one plan; none if nothing runs in it.

    They are not made apart and then merged: ``add_resources`` looks for its caller's module once for every resource,
    which takes longer than all else.
    """
    work = work_of(plan)
    if not work and not plan.tasks:
        return
    key = bundle_key(plan.application)
    served = bool(deployment.sql_warehouse) and has_web_views(plan)
    # A separate key, because ``bundle run KEY`` refuses a key that two resources have.
    app_key = f"{key}__app"
    warehouse = Storage.of(plan, deployment).warehouse
    # They are no resource of the bundle: a deployment would take away the grants that it does not list.
    grants = (
        *(Grant(reader.name, READER) for reader in deployment.readers),
        *(Grant(owner.name, OWNER) for owner in deployment.owners),
        *([app_grant(app_key, plan)] if served else []),
    )
    builder = JobBuilder(plan, deployment, warehouse, grants)
    if deployment.mode == "continuous":
        for unit in work:
            resources.add_job(f"{key}__{unit.key}", builder.continuous(unit), location=_core_location(unit.location))
    elif work:
        resources.add_job(key, builder.scheduled(work), location=_core_location(plan.location))
        for index, unit in enumerate(work):
            resources.add_location(("resources", "jobs", key, f"tasks[{index}]"), _core_location(unit.location))
    for task in plan.tasks:
        resources.add_job(
            f"{key}__{task_key((task.ref,))}", builder.of_task(task), location=_core_location(task.location)
        )
    operations = operations_job(plan, deployment, warehouse)
    resources.add_job(f"{key}__operations", operations, location=_core_location(plan.location))
    if served:
        resources.add_resource(app_key, web_app(plan, deployment, warehouse), location=_core_location(plan.location))


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
