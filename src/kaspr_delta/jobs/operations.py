"""The job with which people operate an application: it runs one command, such as a rebuild, when somebody starts it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from databricks.bundles.jobs import Job, JobParameterDefinition, QueueSettings

from kaspr_delta.jobs.deployment import Deployment
from kaspr_delta.jobs.job import JobBuilder
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.settings import OPERATION, OPERATION_PARAMETER, PURPOSE_TAG

_DEFAULT = "status"


def operations_job(plan: Plan, deployment: Deployment, warehouse: str) -> Job:
    """The job. It ends, so it runs on serverless compute unless a deployment is on clusters alone."""
    compute = "serverless" if deployment.compute == "default" else deployment.compute
    return OperationsBuilder(plan, replace(deployment, compute=compute), warehouse).operations()


@dataclass(frozen=True, slots=True)
class OperationsBuilder(JobBuilder):
    """Makes the job. Its parameter holds the command; ``kaspr-delta-task`` knows the commands that it may run."""

    def operations(self) -> Job:
        """The job, without a schedule. A run that is started during another one waits for its turn."""
        command = f"{{{{job.parameters.{OPERATION_PARAMETER}}}}}"
        folder = f"${{workspace.file_path}}/{self.deployment.folder}"
        where = ["--app", self.plan.application, "--warehouse", self.warehouse]
        # It is not tried again: somebody waits for the answer.
        task = self._compute.task(OPERATION, command, [OPERATION, folder, command, *where])
        task.timeout_seconds = self.deployment.timeout_minutes * 60
        job = self._job(f"{self.plan.application}: operations", [task])
        job.description = "Commands for people: rebuild KIND/NAME, dead-letters [--retry --only-failed], doctor, status"
        job.parameters = [JobParameterDefinition(name=OPERATION_PARAMETER, default=_DEFAULT)]
        job.queue = QueueSettings(enabled=True)
        job.tags = {**self._compute.tags, PURPOSE_TAG: OPERATION}
        return job
