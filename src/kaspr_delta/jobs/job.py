"""Databricks jobs out of units of work."""

from __future__ import annotations

from dataclasses import dataclass

from databricks.bundles.core import VariableOrDict, VariableOrList
from databricks.bundles.jobs import (
    ClusterSpec,
    Continuous,
    CronSchedule,
    DataSecurityMode,
    Environment,
    Job,
    JobCluster,
    JobEnvironment,
    Library,
    PythonPyPiLibrary,
    PythonWheelTask,
    QueueSettings,
    Task,
    TaskDependency,
    TaskRetryMode,
)

from kaspr_delta.jobs.deployment import Deployment
from kaspr_delta.jobs.work import Work
from kaspr_delta.plan.application_plan import Plan

PACKAGE = "kaspr_delta"
ENTRY_POINT = "kaspr-delta"
WHEEL = "dist/*.whl"
ENVIRONMENT_KEY = "kaspr"
CLUSTER_KEY = "kaspr"
RETRIES = 2
RETRY_AFTER_MILLIS = 60_000
# A first load may take hours; a task that takes longer than this hangs.
TASK_TIMEOUT_SECONDS = 6 * 3600


@dataclass(frozen=True, slots=True)
class JobBuilder:
    """Makes the jobs of one application for one deployment. ``warehouse`` is what every task is told to work on."""

    plan: Plan
    deployment: Deployment
    warehouse: str

    def scheduled(self, work: tuple[Work, ...]) -> Job:
        """One job that runs all units of work in the order of the data, then ends."""
        return Job(
            name=self.plan.application,
            description=f"Agents, joins and made tables of {self.plan.application}, until everything is caught up",
            schedule=CronSchedule(
                quartz_cron_expression=self.deployment.schedule, timezone_id=self.deployment.timezone
            ),
            # A run that comes while another one is busy waits for it: two must not fold the same tables.
            max_concurrent_runs=1,
            queue=QueueSettings(enabled=True),
            tasks=[self._scheduled_task(unit) for unit in work],
            environments=self._environments(),
            job_clusters=self._clusters(),
            tags=self._tags(),
        )

    def continuous(self, unit: Work) -> Job:
        """A job that keeps one unit of work running. Databricks itself restarts it, with growing pauses."""
        return Job(
            name=f"{self.plan.application}: {unit.title}",
            description=unit.description or None,
            continuous=Continuous(task_retry_mode=TaskRetryMode.ON_FAILURE),
            max_concurrent_runs=1,
            tasks=[self._task(unit)],
            environments=self._environments(),
            job_clusters=self._clusters(),
            tags=self._tags(),
        )

    def _scheduled_task(self, unit: Work) -> Task:
        task = self._task(unit)
        task.depends_on = [TaskDependency(task_key=key) for key in unit.after]
        task.max_retries = RETRIES
        task.min_retry_interval_millis = RETRY_AFTER_MILLIS
        task.retry_on_timeout = False
        task.timeout_seconds = TASK_TIMEOUT_SECONDS
        return task

    def _task(self, unit: Work) -> Task:
        wheel = PythonWheelTask(package_name=PACKAGE, entry_point=ENTRY_POINT, parameters=self._parameters(unit))
        description = f"{unit.title}: {unit.description}" if unit.description else unit.title
        if self.deployment.serverless:
            return Task(
                task_key=unit.key,
                description=description,
                python_wheel_task=wheel,
                environment_key=ENVIRONMENT_KEY,
                # Otherwise serverless compute adds retries of its own to ours.
                disable_auto_optimization=True,
            )
        return Task(
            task_key=unit.key,
            description=description,
            python_wheel_task=wheel,
            job_cluster_key=CLUSTER_KEY,
            libraries=[
                Library(whl=WHEEL),
                *(Library(pypi=PythonPyPiLibrary(package=package)) for package in self.plan.python_packages),
            ],
        )

    def _parameters(self, unit: Work) -> VariableOrList[str]:
        only = [text for resource in unit.resources for text in ("--only", str(resource))]
        # Serverless compute has no endless triggers: there a continuous job runs until quiet and is started again.
        endless = self.deployment.mode == "continuous" and not self.deployment.serverless
        return [
            "run",
            f"${{workspace.file_path}}/{self.deployment.folder}",
            "--app",
            self.plan.application,
            *only,
            "--warehouse",
            self.warehouse,
            *(["--continuous"] if endless else []),
        ]

    def _environments(self) -> VariableOrList[JobEnvironment]:
        if not self.deployment.serverless:
            return []
        spec = Environment(
            environment_version=self.deployment.environment_version,
            dependencies=[WHEEL, *self.plan.python_packages],
        )
        return [JobEnvironment(environment_key=ENVIRONMENT_KEY, spec=spec)]

    def _clusters(self) -> VariableOrList[JobCluster]:
        if self.deployment.serverless:
            return []
        cluster = ClusterSpec(
            spark_version=self.deployment.spark_version,
            node_type_id=self.deployment.node_type,
            # A fixed size: streams do not shrink a cluster in time, they only grow it.
            num_workers=self.deployment.workers,
            data_security_mode=DataSecurityMode.SINGLE_USER,
            custom_tags=self._tags(),
        )
        return [JobCluster(job_cluster_key=CLUSTER_KEY, new_cluster=cluster)]

    def _tags(self) -> VariableOrDict[str]:
        return {"framework": "kaspr-delta", "application": self.plan.application}
