"""From loaded manifests to plans, one per application.

What can be resolved becomes part of the plan; what points at something absent waits and is listed with the reason, so
that the rest runs. With an error among the findings no plan should be run at all: whoever runs it decides that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kaspr_delta.plan.agents import agent_plan
from kaspr_delta.plan.applications import Application, Declared, applications, channel_of
from kaspr_delta.plan.defaults import Defaults, defaults_of
from kaspr_delta.plan.definition import JoinPlan, Plan, ResourceRef, Serializers, TablePlan
from kaspr_delta.plan.delta_names import claims, refuse_clashes
from kaspr_delta.plan.effect import note_fields_without_effect, note_kinds_not_run
from kaspr_delta.plan.names import (
    application_id,
    changelog_topic,
    channel_table,
    delta_name,
    subscriptions_table,
)
from kaspr_delta.plan.order import data_flow, definition_cycles, groups, stages
from kaspr_delta.plan.pipelines import table_references
from kaspr_delta.plan.references import References
from kaspr_delta.plan.report import Report
from kaspr_delta.plan.tasks import task_plan
from kaspr_delta.plan.topics import named_topics, topic_plans
from kaspr_delta.plan.window import WindowPlan
from kaspr_delta.spec.diagnostics import Finding, Location, sorted_findings
from kaspr_delta.spec.durations import milliseconds
from kaspr_delta.spec.join import JoinSpec
from kaspr_delta.spec.loader import LoadedManifests
from kaspr_delta.spec.table import TableSpec
from kaspr_delta.spec.topic_configs import DEFAULT_RETENTION, deletes, retention


def build_plans(loaded: LoadedManifests) -> tuple[tuple[Plan, ...], tuple[Finding, ...]]:
    """The plans of all applications, sorted by name, and all findings, the loader's included."""
    common = Report(list(loaded.findings))
    found = applications(loaded.manifests, loaded.broken, common)
    _refuse_shared_schemas(found, common)
    plans: list[Plan] = []
    everything = list(common.findings)
    for application in found:
        report = Report()
        plan = _plan(application, found, loaded.broken, report)
        plans.append(replace(plan, findings=sorted_findings((*common.findings, *report.findings))))
        everything.extend(report.findings)
    return tuple(plans), sorted_findings(everything)


def _plan(
    application: Application, everything: tuple[Application, ...], broken: frozenset[tuple[str, str]], report: Report
) -> Plan:
    references = References(application, everything, broken, report)
    app = application.app.spec if application.app else None
    defaults = defaults_of(app)
    named = sorted(application.joins), sorted(application.agents), sorted(application.tasks)
    tables = tuple(_table(application, application.tables[name], defaults) for name in sorted(application.tables))
    joins = tuple(filter(None, (_join(application.joins[name], references) for name in named[0])))
    tasks = tuple(filter(None, (task_plan(application.tasks[name], defaults, references) for name in named[2])))
    changelogs = {table.changelog: table.name for table in tables}
    mentioned = tuple(topic for topic in named_topics(application) if topic.name not in changelogs)
    topics = topic_plans(mentioned, defaults)
    names = [topic.name for topic in topics]
    agents = tuple(
        filter(None, (agent_plan(application.agents[name], defaults, references, names) for name in named[1]))
    )
    _check_not_run(application, references)
    _refuse_shared_channels(application, report)
    refuse_clashes(claims(application, ((topic.name, topic.location) for topic in mentioned)), report)
    note_fields_without_effect(application, report)
    note_kinds_not_run(application, report)
    edges = data_flow(joins, agents, changelogs)
    for circle in definition_cycles(edges):
        location = min(resource.location for resource in application.resources())
        report.error(
            location, f"these are defined by one another: {' -> '.join((*circle, circle[0]))}", "break the circle"
        )
    return Plan(
        application=application.name,
        application_id=application_id(application.name),
        schema=delta_name(application.name),
        default_partitions=defaults.partitions,
        event_timeout=defaults.event_timeout,
        topics=topics,
        tables=tables,
        joins=joins,
        agents=agents,
        tasks=tasks,
        groups=groups(agents),
        stages=stages((*(join.ref for join in joins), *(agent.ref for agent in agents)), edges),
        edges=edges,
        waiting=tuple(sorted(references.waiting.items())),
        not_run=tuple(_not_run(application)),
        python_packages=app.python_packages.packages if app and app.python_packages else (),
        findings=(),
    )


def _table(application: Application, table: Declared[TableSpec], defaults: Defaults) -> TablePlan:
    spec, source = table.spec, table.source
    configs = spec.extra_topic_configs
    old_rows_go = deletes(configs, "compact")
    return TablePlan(
        name=table.name,
        delta_name=delta_name(table.name),
        changelog=changelog_topic(application.name, table.name),
        # A table's own or json: the application's defaults are for topics.
        serializers=Serializers(spec.key_serializer, spec.value_serializer),
        partitions=spec.partitions or defaults.partitions,
        is_global=spec.is_global,
        default=source.snippet(spec.default_selector, "spec", "defaultSelector") if spec.default_selector else None,
        window=_window(table) if spec.window else None,
        retention=(retention(configs) or DEFAULT_RETENTION) if old_rows_go else None,
        feed_retention=None if old_rows_go else retention(configs),
        description=spec.description,
        location=table.location,
    )


def _window(table: Declared[TableSpec]) -> WindowPlan:
    spec = table.spec.window
    of = spec and (spec.hopping or spec.tumbling)
    if not spec or not of:
        msg = f"table '{table.name}' has a window that is neither tumbling nor hopping"
        raise ValueError(msg)
    selector = spec.relative_to_selector
    return WindowPlan(
        size=milliseconds(of.size),
        step=milliseconds(spec.hopping.step if spec.hopping else of.size),
        expires=milliseconds(of.expires) if of.expires is not None else None,
        grace=milliseconds(spec.grace),
        emit=spec.emit,
        relative_to=spec.relative_to,
        selector=table.source.snippet(selector, "spec", "window", "relativeToSelector") if selector else None,
    )


def _join(join: Declared[JoinSpec], references: References) -> JoinPlan | None:
    spec, source = join.spec, join.source
    ref = ResourceRef("join", join.name)
    left = references.table(ref, "leftTable", spec.left_table, source.locate_value("spec", "leftTable"))
    right = references.table(ref, "rightTable", spec.right_table, source.locate_value("spec", "rightTable"))
    if not (left and right):
        return None
    for role, name in (("leftTable", spec.left_table), ("rightTable", spec.right_table)):
        window = references.application.tables[name].source.locate("spec", "window")
        if references.application.tables[name].spec.window:
            message = f"the {role} of join '{join.name}' has windows (at {window}): its rows have no key of their own"
            hint = "join a table without windows; an agent can write one from the values of the windows"
            references.report.error(source.locate_value("spec", role), message, hint)
    channel = channel_of(join)
    return JoinPlan(
        name=join.name,
        left=spec.left_table,
        right=spec.right_table,
        type=spec.type,
        extractor=source.snippet(spec.extractor, "spec", "extractor"),
        channel=channel,
        result=delta_name(join.name),
        log=channel_table(channel),
        subscriptions=subscriptions_table(join.name),
        description=spec.description,
        location=join.location,
    )


def _not_run(application: Application) -> Iterator[ResourceRef]:
    yield from (ResourceRef("webview", name) for name in sorted(application.web_views))


def _check_not_run(application: Application, references: References) -> None:
    """Resources that are not started are checked like the others."""
    # They are listed as not run, so they need not be listed as waiting too.
    checked = replace(references, waiting={})
    addresses: dict[tuple[str, str], Location] = {}
    for view in application.web_views.values():
        for name, location in table_references(view, view.spec.processors):
            checked.table(ResourceRef("webview", view.name), "table", name, location)
        request = view.spec.request
        first = addresses.setdefault((request.method, request.path), view.location)
        if first != view.location:
            at = view.source.locate_value("spec", "request", "path")
            message = f"{request.method} {request.path} is answered by the web view at {first} already"
            references.report.error(at, message, "change the method or the path")


def _refuse_shared_channels(application: Application, report: Report) -> None:
    writers: dict[str, Declared[JoinSpec]] = {}
    for join in application.joins.values():
        channel = channel_of(join)
        first = writers.setdefault(channel, join)
        if first is not join:
            message = f"join '{join.name}' and join '{first.name}' at {first.location} write one channel, '{channel}'"
            at = ("spec", "outputChannel") if join.spec.output_channel else ("metadata", "name")
            report.error(join.source.locate_value(*at), message, "give each join its own outputChannel")


def _refuse_shared_schemas(found: tuple[Application, ...], report: Report) -> None:
    owners: dict[str, Application] = {}
    for application in found:
        first = owners.setdefault(delta_name(application.name), application)
        if first is not application:
            place, other = (min(part.location for part in one.resources()) for one in (application, first))
            message = f"applications '{application.name}' and '{first.name}' at {other} would share the schema"
            report.error(place, f"{message} '{delta_name(application.name)}'", "rename one of them")
