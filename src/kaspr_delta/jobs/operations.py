"""The job with which people operate an application: it runs one command, such as a rebuild, when somebody starts it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from databricks.bundles.jobs import Job, JobParameterDefinition, PerformanceTarget, QueueSettings

from kaspr_delta.jobs.deployment import ComputeKind
from kaspr_delta.jobs.job import JobBuilder
from kaspr_delta.settings import OPERATION, OPERATION_PARAMETER, PURPOSE_TAG

_DEFAULT = "status"


def operations_job(of: JobBuilder) -> Job:
    """The job of the application of a builder. It ends, so it is on serverless compute unless all is on clusters."""
    compute: ComputeKind = "serverless" if of.deployment.compute == "default" else of.deployment.compute
    return OperationsBuilder(of.plan, replace(of.deployment, compute=compute), of.storage, of.revision).operations()


@dataclass(frozen=True, slots=True)
class OperationsBuilder(JobBuilder):
    """Makes the job. Its parameter holds the command; ``kaspr-delta-task`` knows the commands that it may run."""

    def operations(self) -> Job:
        """The job, without a schedule. A run that is started during another one waits for its turn."""
        command = f"{{{{job.parameters.{OPERATION_PARAMETER}}}}}"
        origin = self.deployment.folder
        manifests = [f"${{workspace.file_path}}/{origin}", origin]
        where = ["--app", self.plan.application, "--warehouse", self.storage.warehouse]
        # It is not tried again, and starts in seconds: somebody waits for the answer.
        task = self._compute.task(OPERATION, command, [OPERATION, *manifests, command, *where])
        task.timeout_seconds = self.deployment.timeout_minutes * 60
        job = self._job(f"{self.plan.application}: operations", [task])
        job.performance_target = PerformanceTarget.PERFORMANCE_OPTIMIZED if self.deployment.serverless else None
        job.description = "Commands for people: rebuild KIND/NAME, dead-letters [--retry --only-failed], doctor, status"
        job.parameters = [JobParameterDefinition(name=OPERATION_PARAMETER, default=_DEFAULT)]
        job.queue = QueueSettings(enabled=True)
        job.tags = {**self._compute.tags, "manifests": self.revision, PURPOSE_TAG: OPERATION}
        return job
