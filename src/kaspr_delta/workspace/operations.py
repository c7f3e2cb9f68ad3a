"""Runs of the job that operates a deployed application."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kaspr_delta.errors import NotFoundError, UsageError
from kaspr_delta.settings import OPERATION, OPERATION_PARAMETER, PURPOSE_TAG
from kaspr_delta.workspace.deployed import Run, Workspace, asking, run_of, tag

if TYPE_CHECKING:
    from typing_extensions import Self

# The states in which a run has no result yet.
_UNDER_WAY = frozenset({"BLOCKED", "PENDING", "QUEUED", "RUNNING", "TERMINATING", "UNKNOWN", "WAITING_FOR_RETRY"})
# Seconds between two looks at a run.
_POLL = 5.0


@dataclass(frozen=True, slots=True)
class Operations:
    """The job of one application in one target, by its id and name."""

    workspace: Workspace
    id: int
    name: str

    @classmethod
    def of(cls, workspace: Workspace, target: str, application: str | None) -> Self:
        """The job of the only or the named application of a target.

        Raises NotFoundError where it is not deployed, UsageError for several applications, and SetupError.
        """
        found = workspace.deployed(target, application)
        jobs = {tag(job, "application"): job for job in found if tag(job, PURPOSE_TAG) == OPERATION}
        if not jobs:
            raise NotFoundError(f"{target} has no job for this: deploy the application with this version")
        if len(jobs) > 1:
            raise UsageError(f"{target} has several applications: choose one with --app ({', '.join(sorted(jobs))})")
        (job,) = jobs.values()
        return cls(workspace, job.job_id or 0, (job.settings and job.settings.name) or "")

    def runs_of(self, command: str) -> Iterator[Run]:
        """Start the job with a command, and return the run as it is, again and again until it has ended."""
        jobs = self.workspace.client.jobs
        with asking():
            started: Any = jobs.run_now(self.id, job_parameters={OPERATION_PARAMETER: command}).response
        while True:
            with asking():
                run = run_of(jobs.get_run(started.run_id or 0))
            yield run
            if run.state not in _UNDER_WAY:
                return
            time.sleep(_POLL)
