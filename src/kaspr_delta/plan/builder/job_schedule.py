"""Annotations of a KasprApp that schedule its Databricks job. On a laptop they have no effect."""

from __future__ import annotations

from collections.abc import Callable

from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication
from kaspr_delta.plan.builder.report import Report
from kaspr_delta.plan.definition.application import JobSchedule
from kaspr_delta.spec.cron import quartz_problem, timezone_problem
from kaspr_delta.spec.near import suggestion
from kaspr_delta.spec.resource import ResourceSpec

PREFIX = "databricks.kaspr.io/"
SCHEDULE = f"{PREFIX}schedule"
TIMEZONE = f"{PREFIX}timezone"
_CHECKS: dict[str, Callable[[str], str | None]] = {SCHEDULE: quartz_problem, TIMEZONE: timezone_problem}


def job_schedule(application: DeclaredApplication, report: Report) -> JobSchedule:
    """The schedule. Annotations with the prefix that are misspelt, invalid or not on the KasprApp are errors."""
    app = application.app
    for resource in application.resources():
        _check(resource, report, of_app=resource is app)
    annotations = app.source.manifest.metadata.annotations if app is not None else {}
    return JobSchedule(annotations.get(SCHEDULE), annotations.get(TIMEZONE))


def _check(resource: Declared[ResourceSpec], report: Report, *, of_app: bool) -> None:
    annotations = resource.source.manifest.metadata.annotations
    for name, value in ((name, value) for name, value in annotations.items() if name.startswith(PREFIX)):
        path = ("metadata", "annotations", name)
        check = _CHECKS.get(name)
        if check is None:
            hint = suggestion(name, _CHECKS, "known here")
            report.error(resource.source.locate(*path), f"'{name}' is no annotation of kaspr-delta", hint)
        elif not of_app:
            message = f"annotation '{name}' has an effect on a KasprApp only"
            report.error(resource.source.locate(*path), message, "one job runs the whole application: move it there")
        elif problem := check(value):
            report.error(resource.source.locate_value(*path), f"annotation '{name}': {problem}")
