"""Deployments with every mode, compute and layout, and a workspace's rules for jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kaspr_delta.spec.cron import quartz_problem, timezone_problem

ALL_DEPLOYMENTS: list[dict[str, Any]] = [
    {"mode": mode, "compute": compute, "layout": layout}
    for mode in ("scheduled", "continuous")
    for compute, layout in (("default", "one"), ("serverless", "group"), ("cluster", "resource"))
]


def refused_by_a_workspace(job: dict[str, Any]) -> Iterator[str]:
    """Problems of a job that a real workspace refuses, but the CLI and a fake workspace do not."""
    starts = [part for part in ("schedule", "continuous", "trigger") if part in job]
    if len(starts) > 1:
        yield f"{' and '.join(starts)} together"
    if schedule := job.get("schedule"):
        yield from filter(None, [quartz_problem(schedule["quartz_cron_expression"])])
        yield from filter(None, [timezone_problem(schedule["timezone_id"])])
    keys = [task["task_key"] for task in job["tasks"]]
    yield from (f"task key {key} twice" for key in set(keys) if keys.count(key) > 1)
    yield from (f"task key {key} too long" for key in keys if len(key) > 100)
    if "continuous" in job and len(keys) > 1:
        yield "order or retries of tasks that never end"
    environments = {one["environment_key"] for one in job.get("environments", [])}
    clusters = {one["job_cluster_key"] for one in job.get("job_clusters", [])}
    known: set[str] = set()
    for task in job["tasks"]:
        named = [key for key in ("environment_key", "job_cluster_key") if key in task]
        if "condition_task" in task:
            yield from (f"{task['task_key']} has {key}, a condition has none" for key in named)
        elif len(named) != 1:
            yield f"{task['task_key']} runs nowhere or in two places"
        elif task[named[0]] not in environments | clusters:
            yield f"{task['task_key']} runs on {task[named[0]]}, which is not defined"
        before = {one["task_key"] for one in task.get("depends_on", [])}
        yield from (f"{task['task_key']} waits for {key}, which does not come earlier" for key in before - known)
        if "continuous" in job and task.keys() & {"max_retries", "timeout_seconds"}:
            yield f"{task['task_key']} has retries or a timeout in a continuous job"
        known.add(task["task_key"])
