"""The runs, starts and idle statements of a deployment in a day, for each layout, read off the jobs that it would make.

There are no prices here: a workspace measures what it is billed (see ``usage``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, get_args

from kaspr_delta.jobs.deployment import Deployment
from kaspr_delta.jobs.job import SECONDS_BETWEEN_UPDATES, never_ends, wheel_tasks
from kaspr_delta.jobs.resources import builder_of, bundle_key, jobs_of, layout_of
from kaspr_delta.jobs.work import Layout, work_of
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef, TopicInput, TopicPlan
from kaspr_delta.spec.cron import quartz_firings_a_day
from kaspr_delta.spec.durations import milliseconds

IDLE_STATEMENTS = 4
"""The statements of a task that finds nothing new, beside those for the tables that its resources follow.

tests/spark/test_streams_of_a_catalog.py counts them, and the next ones.
"""

MOST_SOURCE_STATEMENTS = 2
"""The most statements for these tables: two are asked by a statement each, more of them by two together."""

INTERNAL_STATEMENTS = 1
"""The statements more if internal tables have a schema of their own: the tables of that one."""

COMPARED_STATEMENTS = 1
"""The statements more if a task has resources with ``onChange: side-by-side``."""

ENDPOINT_STATEMENTS = 2
"""The statements more for each topic that is bound as an input, and once for all of them in a task."""

BATCH_STATEMENTS = 10
"""The most statements of a small batch: versions, its stream, look-ups, commit, folds, the start of the next stream.

Counted in a catalog: 5 or 6 of an agent, 10 of a join of tables. Dead letters and more tables are more.
"""

_DAY = 24 * 60 * 60
_UNITS = {"MINUTES": 60, "HOURS": 60 * 60, "DAYS": _DAY, "WEEKS": 7 * _DAY}


@dataclass(frozen=True, slots=True)
class Span:
    """A number that lies between two bounds."""

    least: float
    most: float

    def __add__(self, other: Span) -> Span:
        return Span(self.least + other.least, self.most + other.most)

    def __mul__(self, number: int) -> Span:
        return Span(self.least * number, self.most * number)


NONE = Span(0, 0)


@dataclass(frozen=True, slots=True)
class DailyCost:
    """Numbers a day of all jobs of a layout that start by themselves.

    ``starts`` counts what begins compute: on serverless compute each task of a run, on clusters the cluster of a run,
    which its tasks share. ``endless`` runs never end: they start after deployments and failures only. ``statements``
    are those of runs, and of looks of endless ones, that find nothing new.
    """

    layout: Layout
    is_deployed: bool
    jobs: int
    tasks: int
    endless: int
    runs: Span
    starts: Span
    statements: Span


def daily_costs(plan: Plan, deployment: Deployment) -> tuple[DailyCost, ...]:
    """The cost of each layout that the deployment may have. Raises UsageError if it cannot have its trigger."""
    chosen = layout_of(plan, deployment)
    layouts = dict.fromkeys(layout_of(plan, replace(deployment, layout=layout)) for layout in get_args(Layout))
    return tuple(_cost_of(plan, deployment, layout, is_deployed=layout == chosen) for layout in layouts)


def _cost_of(plan: Plan, deployment: Deployment, layout: Layout, *, is_deployed: bool) -> DailyCost:
    builder = builder_of(plan, deployment)
    made = jobs_of(builder, bundle_key(plan.application), work_of(plan, layout), layout)
    jobs: list[dict[str, Any]] = [dict(job.as_dict()) for _, job, _ in made]
    # A job by the clock has no compute: it starts another one.
    clock = sum((_runs_of(job) for job in jobs if _starts_another(job)), NONE)
    own = [job for job in jobs if not _starts_another(job) and job.keys() & {"schedule", "trigger", "continuous"}]
    runs = [_runs_of(job) + (clock if "table_update" in job.get("trigger", {}) else NONE) for job in own]
    each = list(zip(own, runs, strict=True))
    return DailyCost(
        layout=layout,
        is_deployed=is_deployed,
        jobs=len(own),
        tasks=sum(len(wheel_tasks(job)) for job in own),
        endless=sum(map(never_ends, own)),
        runs=sum(runs, NONE),
        starts=sum((one * _starts_in(job) for job, one in each), NONE),
        statements=sum((_statements(plan, deployment, job, one) for job, one in each), NONE),
    )


def _runs_of(job: Mapping[str, Any]) -> Span:
    """The runs of a job that its own schedule or trigger starts."""
    trigger = job.get("trigger", {})
    if "schedule" in job:
        firings = quartz_firings_a_day(job["schedule"]["quartz_cron_expression"])
    elif "periodic" in trigger:
        firings = _DAY / (trigger["periodic"]["interval"] * _UNITS[trigger["periodic"]["unit"]])
    elif "table_update" in trigger:
        return Span(0, _DAY / SECONDS_BETWEEN_UPDATES)
    else:  # it never ends
        return NONE
    return Span(firings, firings)


def _starts_another(job: Mapping[str, Any]) -> bool:
    return "run_job_task" in job["tasks"][0]


def _parameters(job: Mapping[str, Any]) -> Sequence[str]:
    """The parameters of all tasks of a job."""
    return list(chain.from_iterable(task["python_wheel_task"]["parameters"] for task in wheel_tasks(job)))


def _starts_in(job: Mapping[str, Any]) -> int:
    """The number of starts of compute in a run."""
    return 1 if "job_clusters" in job else len(wheel_tasks(job))


def _statements(plan: Plan, deployment: Deployment, job: Mapping[str, Any], runs: Span) -> Span:
    """The statements of a job, each day, that find nothing new."""
    tasks = wheel_tasks(job)
    followed = [[_sources_of(plan, ref) for ref in _resources_of(plan, _parameters({"tasks": [one]}))] for one in tasks]
    if never_ends(job):  # a look asks for the newest version of each source that has no news
        looks = _DAY * 1_000 / milliseconds(deployment.every)
        return Span(0, sum(len(sources) for task in followed for sources in task) * looks)
    return runs * sum(_idle(plan, deployment, _resources_of(plan, _parameters({"tasks": [one]}))) for one in tasks)


def _idle(plan: Plan, deployment: Deployment, refs: Sequence[ResourceRef]) -> int:
    """The statements of a task with these resources in a run that finds nothing new."""
    inputs = [ref for ref in refs if _is_input(plan.running(ref))]
    tables = set(chain.from_iterable(_sources_of(plan, ref) for ref in refs if ref not in inputs))
    return sum(
        (
            IDLE_STATEMENTS,
            min(len(tables), MOST_SOURCE_STATEMENTS),
            INTERNAL_STATEMENTS if deployment.internal_suffix else 0,
            COMPARED_STATEMENTS if any(plan.reaction(ref) == "side-by-side" for ref in refs) else 0,
            ENDPOINT_STATEMENTS * (len(inputs) + 1) if inputs else 0,
        )
    )


def _is_input(running: object) -> bool:
    return isinstance(running, TopicPlan) and running.bound.direction == "input"


def _resources_of(plan: Plan, parameters: Sequence[str]) -> list[ResourceRef]:
    """The resources that a task runs: those that its parameters name, or all."""
    named = {value for option, value in pairwise(parameters) if option == "--only"}
    return [ref for stage in plan.stages for ref in stage.resources if str(ref) in named or not named]


def _sources_of(plan: Plan, ref: ResourceRef) -> set[str]:
    """The tables whose commits a resource follows. Functions of agents read tables without following them."""
    agent = plan.agent(ref.name) if ref.kind == "agent" else None
    if agent is not None:
        read = agent.input
        if isinstance(read, TopicInput):
            return {f"topic/{topic}" for topic in read.topics}
        return {f"channel of {read.join}"}
    # A join follows the results of joins, other resources their channels.
    return {
        edge.source if ref.kind == "join" else edge.source.replace("join/", "channel of ")
        for edge in plan.edges
        if edge.target == str(ref)
    }
