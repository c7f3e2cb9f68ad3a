"""Plans of tasks."""

from __future__ import annotations

from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication
from kaspr_delta.plan.builder.defaults import Defaults
from kaspr_delta.plan.builder.pipelines import initializer, pipeline, tables_handed
from kaspr_delta.plan.builder.references import References
from kaspr_delta.plan.definition.resources import ResourceRef, SchedulePlan, TaskPlan
from kaspr_delta.plan.names import task_table
from kaspr_delta.spec.durations import milliseconds
from kaspr_delta.spec.task import Schedule, TaskSpec


def task_plans(application: DeclaredApplication, defaults: Defaults, references: References) -> tuple[TaskPlan, ...]:
    """The plans of all tasks that do not wait, sorted by name."""
    tasks = (application.tasks[name] for name in sorted(application.tasks))
    return tuple(filter(None, (_plan(task, defaults, references) for task in tasks)))


def _plan(task: Declared[TaskSpec], defaults: Defaults, references: References) -> TaskPlan | None:
    ref = ResourceRef("task", task.name)
    spec = task.spec
    tables = tables_handed(ref, task, spec.processors, references)
    if ref in references.waiting:
        return None
    return TaskPlan(
        name=task.name,
        schedule=_schedule(spec.schedule) if spec.schedule else None,
        init=initializer(task, spec.processors),
        pipeline=tuple(pipeline(task, spec.processors, defaults)),
        tables=tables,
        log=task_table(task.name),
        description=spec.description,
        location=task.location,
    )


def _schedule(schedule: Schedule) -> SchedulePlan:
    interval = milliseconds(schedule.interval) if schedule.interval else None
    return SchedulePlan(interval, schedule.cron, schedule.timezone or "UTC")
