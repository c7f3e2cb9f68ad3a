"""Makes Databricks jobs from units of work and from tasks of the manifests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from databricks.bundles.core import Variable, VariableOrList
from databricks.bundles.jobs import (
    ConditionTask,
    ConditionTaskOp,
    Continuous,
    CronSchedule,
    Job,
    JobRunAs,
    PerformanceTarget,
    QueueSettings,
    RunIf,
    RunJobTask,
    TableUpdateTriggerConfiguration,
    Task,
    TaskDependency,
    TaskRetryMode,
    TriggerSettings,
)

from kaspr_delta.grant import Grant
from kaspr_delta.jobs.compute import Compute
from kaspr_delta.jobs.deployment import Deployment
from kaspr_delta.jobs.oversight import health, oversight
from kaspr_delta.jobs.storage import Storage
from kaspr_delta.jobs.trigger import trigger_of
from kaspr_delta.jobs.watched import watched_tables
from kaspr_delta.jobs.work import EVERYTHING, Work, task_key, waiting_work
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef, TaskPlan
from kaspr_delta.settings import GRANT, JOB_FRAMEWORK

EVERY_QUARTER_OF_AN_HOUR = "0 0/15 * * * ?"
_DAILY = "0 0 3 * * ?"
# The least that Databricks allows.
SECONDS_BETWEEN_UPDATES = 60
VERDICT = "verdict"
"""The key of the last task of a job whose tasks run whatever became of those before."""
_VERDICT = "Fails if another task has failed"
# The CLI writes this file at the end of each deployment that changes something.
_DEPLOYED = "${workspace.state_path}/resources.json"


@dataclass(frozen=True, slots=True)
class JobBuilder:
    """Makes the jobs of one application for one deployment.

    Every task works on the ``storage``. Those that come after no other one read the manifests, and make the ``grants``
    that are missing, and the ``internal_grants`` on the schema of internal tables. Jobs know the ``revision`` of the
    manifests: a deployment of other manifests changes them, and restarts those that never end.
    """

    plan: Plan
    deployment: Deployment
    storage: Storage
    revision: str
    grants: tuple[Grant, ...] = ()
    internal_grants: tuple[Grant, ...] = ()

    def scheduled(self, work: tuple[Work, ...]) -> Job:
        """One job that runs all units of work in the order of the data, then ends.

        A unit runs also after one that failed, on the rows that are there: as in a single run. A last task fails then.
        """
        units = (*work, *waiting_work(self.plan, work))
        tasks = [self._ending(self._task_of(unit), unit.after) for unit in units]
        job = self.job(self.plan.application, [*tasks, *_verdict(tasks)])
        job.description = f"Agents, joins and made tables of {self.plan.application}, until everything is caught up"
        if self.deployment.trigger == "table_update":
            updates = TableUpdateTriggerConfiguration(
                table_names=[*watched_tables(self.plan, self.storage)],
                min_time_between_triggers_seconds=SECONDS_BETWEEN_UPDATES,
            )
            job.trigger = TriggerSettings(table_update=updates)
            # An update during a run may come too late for that run.
            job.queue = QueueSettings(enabled=True)
        else:
            only_applies = not self.plan.waiting and not any(unit.resources for unit in work)
            job.schedule = self._schedule(_DAILY if only_applies else EVERY_QUARTER_OF_AN_HOUR)
            # What comes during a run is read by that run, or by the next one: a run that waited would find nothing.
            job.queue = QueueSettings(enabled=False)
        return job

    def by_the_clock(self, key: str) -> Job:
        """A job that starts the job with this key in the bundle by a clock: for what its trigger missed."""
        task = Task(task_key=key, run_job_task=RunJobTask(job_id=Variable(path=f"resources.jobs.{key}.id", type=int)))
        job = self._described(f"{self.plan.application}: by the clock", [task])
        job.description = f"Starts {self.plan.application} also when no table was updated"
        job.schedule = self._schedule(_DAILY)
        return job

    def continuous(self, unit: Work) -> Job:
        """A job that keeps one unit of work running. Databricks itself restarts it, with growing pauses."""
        title = self.plan.application if unit.key == EVERYTHING else f"{self.plan.application}: {unit.title}"
        job = self.job(title, [self._task_of(unit, endless=True)])
        job.description = unit.description or None
        job.continuous = Continuous(task_retry_mode=TaskRetryMode.ON_FAILURE)
        return job

    def of_task(self, task: TaskPlan, *, applies: bool) -> Job:
        """A job for a task of the manifests, started by the task's schedule; without a schedule, on demand.

        If no trigger can express the schedule, a run that never ends keeps it. Unless it ``applies`` the manifests, it
        only runs by them: they are not those of a run of the other resources that an earlier deployment began.
        """
        trigger = trigger_of(task.schedule) if task.schedule is not None else None
        endless = task.schedule is not None and trigger is None
        made = self._task(task_key((task.ref,)), (task.ref,), task.description, endless=endless, applies=applies)
        job = self.job(f"{self.plan.application}: {task.ref}", [made if endless else self._ending(made, ())])
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

    def _schedule(self, default: str) -> CronSchedule:
        wanted, declared = self.deployment, self.plan.job_schedule
        return CronSchedule(
            quartz_cron_expression=wanted.schedule or declared.quartz or default, timezone_id=self.timezone
        )

    @property
    def timezone(self) -> str:
        """The time zone of schedules."""
        return self.deployment.timezone or self.plan.job_schedule.timezone or "UTC"

    def job(self, name: str, tasks: list[Task]) -> Job:
        """A job of these tasks, without anything that starts it."""
        job, compute = self._described(name, tasks), self.compute
        job.environments, job.job_clusters = compute.environments(), compute.clusters()
        job.health = health(self.deployment)
        if self.deployment.serverless:
            job.performance_target = PerformanceTarget(self.deployment.performance_target.upper())
            job.budget_policy_id = self.deployment.usage_policy_id or None
        return job

    def _described(self, name: str, tasks: list[Task]) -> Job:
        """A job with what all jobs of a deployment have, without compute."""
        wanted = self.deployment
        return Job.from_dict(
            {
                "name": name,
                "max_concurrent_runs": 1,
                "tasks": [*tasks],
                "tags": {**self.compute.tags, "manifests": self.revision},
                "run_as": JobRunAs(**wanted.run_as.grantee) if wanted.run_as else None,
                **oversight(wanted),
            }
        )

    @property
    def compute(self) -> Compute:
        """The compute of each job."""
        tags = {"framework": JOB_FRAMEWORK, "application": self.plan.application, "target": self.deployment.target}
        return Compute(self.deployment, self.plan.python_packages, tags)

    def _ending(self, task: Task, after: tuple[str, ...]) -> Task:
        """Make the task one that ends. It tries again by itself, for it alone knows which failures may pass."""
        task.depends_on, task.run_if = _dependencies(after), RunIf.ALL_DONE if after else None
        task.max_retries = 0
        task.timeout_seconds = self.deployment.timeout_minutes * 60
        return task

    def _task_of(self, unit: Work, *, endless: bool = False) -> Task:
        return self._task(
            unit.key,
            () if unit.key == EVERYTHING else unit.resources,
            unit.description,
            endless=endless,
            reads=not unit.after,
        )

    def _task(  # noqa: PLR0913  a task of each kind of job
        self,
        key: str,
        resources: tuple[ResourceRef, ...],
        description: str,
        *,
        endless: bool,
        reads: bool = True,
        applies: bool = True,
    ) -> Task:
        """A task that runs these resources, or all. It ``reads`` the manifests unless it comes after another one.

        If it ``applies`` them too, those that come after it run by them, whatever is deployed meanwhile.
        """
        wanted = self.deployment
        title = " + ".join(map(str, resources)) or f"everything of {self.plan.application}"
        ending = ["--retries", str(wanted.retries), "--waiting", wanted.waiting, "--grace", wanted.waiting_grace]
        ending += ["--all-dead-letters", "fail"]
        parameters = [
            "run",
            *([*self.manifests, *wanted.values_option] if reads else []),
            *([] if applies else ["--no-apply"]),
            "--app",
            self.plan.application,
            *(text for resource in resources for text in ("--only", str(resource))),
            "--warehouse",
            self.storage.warehouse,
            *(self.granting() if reads else ()),
            *(["--continuous", "--every", wanted.every, "--until-changed", _DEPLOYED] if endless else ending),
        ]
        return self.compute.task(key, f"{title}: {description}" if description else title, parameters)

    @property
    def manifests(self) -> list[str]:
        """The parameters of a task that reads the manifests, unless others were deployed since."""
        folder = self.deployment.folder
        return [f"${{workspace.file_path}}/{folder}", "--origin", folder, "--revision", self.revision]

    def granting(self) -> Iterator[str]:
        """The options of a run, and of the doctor, that name the grants on both schemas."""
        for option, grants in ((GRANT, self.grants), ("--grant-internal", self.internal_grants)):
            for grant in grants:
                yield from (option, grant.text)


def _dependencies(keys: Iterable[str]) -> VariableOrList[TaskDependency]:
    return [TaskDependency(task_key=key) for key in keys]


def _verdict(tasks: list[Task]) -> Iterator[Task]:
    """The last task of a job in which tasks run whatever became of those before: it fails if one of them has failed.

    For Databricks judges a run by the tasks that no other one follows. A condition needs no compute.
    """
    if any(task.run_if for task in tasks):
        always = ConditionTask(left="1", op=ConditionTaskOp.EQUAL_TO, right="1")
        others = _dependencies(str(task.task_key) for task in tasks)
        yield Task(task_key=VERDICT, description=_VERDICT, condition_task=always, depends_on=others)


def wheel_tasks(job: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The tasks of a job, given as plain data, that need compute: those that run the command ``kaspr-delta``."""
    return [task for task in job["tasks"] if "python_wheel_task" in task]


def never_ends(job: Mapping[str, Any]) -> bool:
    """Whether a task of a job, given as plain data, runs without end."""
    return any("--continuous" in task["python_wheel_task"].get("parameters", ()) for task in wheel_tasks(job))
