"""Build the plans of applications from loaded manifests.

A resource that refers to a missing resource waits and is listed with the reason, so that the rest runs. If one of the
findings is an error, no plan should run at all: the caller decides that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from kaspr_delta.errors import ManifestError, NotFoundError
from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication, S_co, applications, channel_of
from kaspr_delta.plan.builder.bindings import bound_topics
from kaspr_delta.plan.builder.copartitioning import Copartitioning
from kaspr_delta.plan.builder.delta_names import claims, refuse_clashes
from kaspr_delta.plan.builder.joins import join_plans
from kaspr_delta.plan.builder.notes import note_calls_from_workers, note_fields_without_effect
from kaspr_delta.plan.builder.on_change import reactions
from kaspr_delta.plan.builder.order import data_flow, definition_cycles, groups, stages, tables_in_results
from kaspr_delta.plan.builder.pipelines import agent_plan, refuse_addresses_twice, task_plan, web_view_plan
from kaspr_delta.plan.builder.references import References
from kaspr_delta.plan.builder.sides import Sides
from kaspr_delta.plan.builder.tables import aggregation_plan, table_plan
from kaspr_delta.plan.builder.topics import named_topics, topic_plans
from kaspr_delta.plan.definition.application import JobSchedule, Plan
from kaspr_delta.plan.definition.joins import TableTableJoinPlan
from kaspr_delta.plan.definition.typed_joins import type_problems
from kaspr_delta.plan.drawing.picture import Edge
from kaspr_delta.plan.names import application_id, changelog_topic, delta_name
from kaspr_delta.spec.cron import quartz_problem, timezone_problem
from kaspr_delta.spec.diagnostics import Finding, Report, has_errors, sorted_findings
from kaspr_delta.spec.join import JoinSpec
from kaspr_delta.spec.limits import MOST_TABLES_IN_A_RESULT
from kaspr_delta.spec.loader import LoadedManifests
from kaspr_delta.spec.near import suggestion
from kaspr_delta.spec.resource import ResourceSpec

PlanOf = TypeVar("PlanOf")

# Annotations of a KasprApp that schedule its Databricks job. On a laptop they have no effect.
_ANNOTATION = "databricks.kaspr.io/"
_SCHEDULE = f"{_ANNOTATION}schedule"
_TIMEZONE = f"{_ANNOTATION}timezone"
_CHECKS: dict[str, Callable[[str], str | None]] = {_SCHEDULE: quartz_problem, _TIMEZONE: timezone_problem}


def build_plans(loaded: LoadedManifests) -> tuple[tuple[Plan, ...], tuple[Finding, ...]]:
    """The plans of all applications, sorted by name, and all findings, the loader's included."""
    common = Report(list(loaded.findings))
    found = applications(loaded.manifests, loaded.broken, common)
    _refuse_shared_schemas(found, common)
    plans: list[Plan] = []
    everything = list(common.findings)
    for application in found:
        report = Report()
        plan = _plan(References(application, found, loaded.broken, report))
        plans.append(replace(plan, findings=sorted_findings((*common.findings, *report.findings))))
        everything.extend(report.findings)
    return tuple(plans), sorted_findings(everything)


def runnable_plans(loaded: LoadedManifests) -> tuple[Plan, ...]:
    """The plans of all applications, sorted by name. Raises ManifestError, with all findings, if one is an error."""
    plans, findings = build_plans(loaded)
    if has_errors(findings):
        raise ManifestError(findings)
    return plans


def named(plans: tuple[Plan, ...], app: str | None) -> tuple[Plan, ...]:
    """The plan of the named application, or, without a name, all plans. Raises NotFoundError."""
    chosen = tuple(plan for plan in plans if plan.is_of(app))
    if app is not None and not chosen:
        raise NotFoundError.among("application", app, [plan.application for plan in plans])
    return chosen


def _plan(references: References) -> Plan:
    application, report, defaults = references.application, references.report, references.application.defaults
    app = application.app.spec if application.app else None
    changelogs = {changelog_topic(application.name, name): name for name in application.tables}
    named = tuple(named_topics(application))
    mentioned = tuple(topic for topic in named if topic.name not in changelogs)
    topics = topic_plans(mentioned, defaults, bound_topics(application, named, changelogs, report))
    sides = Sides(references, {topic.name: topic for topic in topics}, changelogs)
    selectors = {topic.name: topic.selector for topic in named if topic.selector}
    tables = _planned(application.tables, lambda table: table_plan(application, table, report))
    joins = join_plans(sides, Copartitioning(application, report, selectors))
    aggregations = _planned(application.tables, lambda table: aggregation_plan(table, sides))
    names = [topic.name for topic in topics]
    agents = _planned(application.agents, lambda agent: agent_plan(agent, references, names))
    tasks = _planned(application.tasks, lambda task: task_plan(task, references))
    web_views = _planned(application.web_views, lambda view: web_view_plan(view, references))
    refuse_addresses_twice(application.web_views.values(), report)
    _refuse_shared_channels(application, report)
    refuse_clashes(claims(application, ((topic.name, topic.location) for topic in mentioned)), report)
    note_fields_without_effect(application, report)
    note_calls_from_workers(agents, report)
    bound = [topic for topic in topics if topic.binding is not None]
    edges = data_flow(joins, aggregations, agents, {table.name: table for table in tables}, changelogs)
    plan = Plan(
        application=application.name,
        application_id=application_id(application.name),
        schema=delta_name(application.name),
        default_partitions=defaults.partitions,
        event_timeout=defaults.event_timeout,
        feed_retention=defaults.feed_retention,
        on_gap=defaults.on_gap,
        on_change=reactions(application, aggregations, report),
        topics=topics,
        tables=tables,
        joins=joins,
        aggregations=aggregations,
        agents=agents,
        tasks=tasks,
        web_views=web_views,
        groups=groups(agents, application.tables),
        stages=stages((one.ref for one in (*bound, *joins, *aggregations, *agents)), edges),
        edges=edges,
        waiting=tuple(sorted(references.waiting.items())),
        python_packages=app.python_packages.packages if app and app.python_packages else (),
        findings=(),
        job_schedule=_job_schedule(application, report),
        location=application.location,
    )
    # The type of a row in a circle is undefined, and that of a row of too many tables takes too long.
    if not _refuse_circles(application, edges, report) and not _refuse_large_results(application, plan, report):
        _refuse_misfits(application, plan, report)
    return plan


def _planned(
    declared: Mapping[str, Declared[S_co]], plan: Callable[[Declared[S_co]], PlanOf | None]
) -> tuple[PlanOf, ...]:
    """The plans of the resources that do not wait, sorted by name."""
    return tuple(found for name in sorted(declared) if (found := plan(declared[name])) is not None)


def _refuse_misfits(application: DeclaredApplication, plan: Plan, report: Report) -> None:
    """Report keys that can never be equal and columns that cannot be selected. Foreign tables are checked when read."""
    for join in plan.joins:
        if not isinstance(join, TableTableJoinPlan):
            continue
        declared = application.joins[join.name]
        locations = {"key": declared.spec.key_field or "on", "select": "select"}
        for part, message, hint in type_problems(plan, join):
            report.error(declared.at(locations[part]), f"join '{join.name}': {message}", hint)


def _refuse_large_results(application: DeclaredApplication, plan: Plan, report: Report) -> bool:
    """Report results of joins that have rows of too many tables; return whether there are any."""
    counted = tables_in_results(plan.joins, plan.edges).items()
    large = next(((label, many) for label, many in counted if many > MOST_TABLES_IN_A_RESULT), None)
    if large is None:
        return False
    label, many = large  # the others join this one
    join = application.joins[label.removeprefix("join/")]
    message = f"join '{join.name}' has rows of {many:,} tables, for it joins results; the most is "
    report.error(join.location, f"{message}{MOST_TABLES_IN_A_RESULT}", "let an agent write a table of what is needed")
    return True


def _refuse_circles(application: DeclaredApplication, edges: tuple[Edge, ...], report: Report) -> bool:
    """Report circles of definitions; return whether there are any."""
    locations = {
        **{f"table/{table.name}": table.key_at("from") for table in application.tables.values()},
        **{f"join/{join.name}": join.location for join in application.joins.values()},
    }
    circles = definition_cycles(edges)
    for circle in circles:
        defined = " -> ".join(f"{label} (at {locations[label]})" for label in circle)
        message = f"these are defined by one another: {defined} -> {circle[0]}"
        report.error(locations[circle[0]], message, "break the circle")
    return bool(circles)


def _refuse_shared_channels(application: DeclaredApplication, report: Report) -> None:
    writers: dict[str, Declared[JoinSpec]] = {}
    for join in application.joins.values():
        channel = channel_of(join)
        first = writers.setdefault(channel, join)
        if first is not join:
            message = f"join '{join.name}' and join '{first.name}' at {first.location} write one channel, '{channel}'"
            at = join.at("outputChannel") if join.spec.output_channel else join.named_at
            report.error(at, message, "give each join its own outputChannel")


def _refuse_shared_schemas(found: tuple[DeclaredApplication, ...], report: Report) -> None:
    owners: dict[str, DeclaredApplication] = {}
    for application in found:
        first = owners.setdefault(delta_name(application.name), application)
        if first is not application:
            message = f"applications '{application.name}' and '{first.name}' at {first.location} would share the schema"
            report.error(application.location, f"{message} '{delta_name(application.name)}'", "rename one of them")


def _job_schedule(application: DeclaredApplication, report: Report) -> JobSchedule:
    """The schedule. Annotations with the prefix that are misspelt, invalid or not on the KasprApp are errors."""
    app = application.app
    for resource in application.resources():
        _check_annotations(resource, report, of_app=resource is app)
    annotations = app.loaded.manifest.metadata.annotations if app is not None else {}
    return JobSchedule(annotations.get(_SCHEDULE), annotations.get(_TIMEZONE))


def _check_annotations(resource: Declared[ResourceSpec], report: Report, *, of_app: bool) -> None:
    annotations, positions = resource.loaded.manifest.metadata.annotations, resource.loaded.positions
    for name, value in ((name, value) for name, value in annotations.items() if name.startswith(_ANNOTATION)):
        path = ("metadata", "annotations", name)
        check = _CHECKS.get(name)
        if check is None:
            hint = suggestion(name, _CHECKS, "known here")
            report.error(positions.key(path), f"'{name}' is no annotation of kaspr-delta", hint)
        elif not of_app:
            message = f"annotation '{name}' has an effect on a KasprApp only"
            report.error(positions.key(path), message, "one job runs the whole application: move it there")
        elif problem := check(value):
            report.error(positions.value(path), f"annotation '{name}': {problem}")
