"""Makes Databricks jobs from units of work and from tasks of the manifests."""

from __future__ import annotations

from dataclasses import dataclass

from databricks.bundles.jobs import (
    Continuous,
    CronSchedule,
    Job,
    JobRunAs,
    QueueSettings,
    Task,
    TaskDependency,
    TaskRetryMode,
    TriggerSettings,
)

from kaspr_delta.grant import Grant
from kaspr_delta.jobs import oversight
from kaspr_delta.jobs.compute import Compute
from kaspr_delta.jobs.deployment import Deployment
from kaspr_delta.jobs.trigger import trigger_of
from kaspr_delta.jobs.work import Work, task_key
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef, TaskPlan
from kaspr_delta.settings import JOB_FRAMEWORK

EVERY_QUARTER_OF_AN_HOUR = "0 0/15 * * * ?"
_RETRY_AFTER_MILLIS = 60_000


@dataclass(frozen=True, slots=True)
class JobBuilder:
    """Makes the jobs of one application for one deployment.

    Every task works on ``warehouse``. Those that come after no other one make the ``grants`` that are missing,
    and the ``internal_grants`` on the schema of internal tables.
    """

    plan: Plan
    deployment: Deployment
    warehouse: str
    grants: tuple[Grant, ...] = ()
    internal_grants: tuple[Grant, ...] = ()

    def scheduled(self, work: tuple[Work, ...]) -> Job:
        """One job that runs all units of work in the order of the data, then ends."""
        wanted, declared = self.deployment, self.plan.job_schedule
        job = self._job(self.plan.application, [self._ending(self._task_of(unit), unit.after) for unit in work])
        job.description = f"Agents, joins and made tables of {self.plan.application}, until everything is caught up"
        job.schedule = CronSchedule(
            quartz_cron_expression=wanted.schedule or declared.quartz or EVERY_QUARTER_OF_AN_HOUR,
            timezone_id=wanted.timezone or declared.timezone or "UTC",
        )
        # A run that is triggered during another one waits for it: two runs must not fold the same tables.
        job.queue = QueueSettings(enabled=True)
        return job

    def continuous(self, unit: Work) -> Job:
        """A job that keeps one unit of work running. Databricks itself restarts it, with growing pauses."""
        # Serverless compute has no endless triggers: there a continuous job runs until quiet and is started again.
        job = self._job(f"{self.plan.application}: {unit.title}", [self._task_of(unit, endless=not self._serverless)])
        job.description = unit.description or None
        job.continuous = Continuous(task_retry_mode=TaskRetryMode.ON_FAILURE)
        return job

    def of_task(self, task: TaskPlan) -> Job:
        """A job for a task of the manifests, started by the task's schedule; without a schedule, on demand.

        If no trigger can express the schedule, a run that never ends keeps it.
        """
        trigger = trigger_of(task.schedule) if task.schedule is not None else None
        endless = task.schedule is not None and trigger is None
        made = self._task(task_key((task.ref,)), (task.ref,), task.description, endless=endless)
        job = self._job(f"{self.plan.application}: {task.ref}", [made if endless else self._ending(made, ())])
        job.description = task.description or None
        if isinstance(trigger, CronSchedule):
            job.schedule = trigger
        elif isinstance(trigger, TriggerSettings):
            job.trigger = trigger
        elif endless:
            job.continuous = Continuous(task_retry_mode=TaskRetryMode.ON_FAILURE)
        # A firing during the previous run is skipped, as on a laptop.
        job.queue = QueueSettings(enabled=False)
        return job

    @property
    def _serverless(self) -> bool:
        return self.deployment.serverless

    def _job(self, name: str, tasks: list[Task]) -> Job:
        compute = self._compute
        return Job(
            name=name,
            max_concurrent_runs=1,
            tasks=tasks,  # type: ignore[arg-type]  # lists are invariant
            environments=compute.environments(),
            job_clusters=compute.clusters(),
            tags=dict(compute.tags),
            run_as=JobRunAs(**self.deployment.run_as.grantee) if self.deployment.run_as else None,
            health=oversight.health(self.deployment),
            email_notifications=oversight.notifications(self.deployment),
            notification_settings=oversight.notification_settings(self.deployment),
            permissions=oversight.permissions(self.deployment),  # type: ignore[arg-type]  # as above
        )

    @property
    def _compute(self) -> Compute:
        tags = {"framework": JOB_FRAMEWORK, "application": self.plan.application, "target": self.deployment.target}
        return Compute(self.deployment, self.plan.python_packages, tags)

    def _ending(self, task: Task, after: tuple[str, ...]) -> Task:
        """Make the task one that ends: it is retried when it fails, and stopped for good when it hangs."""
        task.depends_on = [TaskDependency(task_key=key) for key in after]
        task.max_retries = self.deployment.retries
        task.min_retry_interval_millis = _RETRY_AFTER_MILLIS
        task.retry_on_timeout = False
        task.timeout_seconds = self.deployment.timeout_minutes * 60
        return task

    def _task_of(self, unit: Work, *, endless: bool = False) -> Task:
        grants: dict[str, tuple[Grant, ...]] = {"--grant": self.grants, "--grant-internal": self.internal_grants}
        options = () if unit.after else (part for name, of in grants.items() for one in of for part in (name, one.text))
        return self._task(unit.key, unit.resources, unit.description, *options, endless=endless)

    def _task(
        self,
        key: str,
        resources: tuple[ResourceRef, ...],
        description: str,
        *options: str,
        endless: bool,
    ) -> Task:
        title = " + ".join(map(str, resources))
        parameters = [
            "run",
            f"${{workspace.file_path}}/{self.deployment.folder}",
            "--app",
            self.plan.application,
            *(text for resource in resources for text in ("--only", str(resource))),
            "--warehouse",
            self.warehouse,
            *options,
            *(["--continuous"] if endless else []),
        ]
        return self._compute.task(key, f"{title}: {description}" if description else title, parameters)
