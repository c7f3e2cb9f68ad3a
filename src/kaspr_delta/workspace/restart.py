"""Runs that never end give way to what was deployed after they started."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kaspr_delta.workspace.deployed import asking

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient


@dataclass
class Restart:
    """The runs of some jobs that were under way before a deployment; ``jobs`` are names by id.

    Such a run ends by itself, after the batches under way, when it sees the deployment. Databricks starts the next one.
    """

    client: WorkspaceClient
    jobs: Mapping[int, str]
    runs: dict[int, str] = field(init=False)

    def __post_init__(self) -> None:
        """Find the runs. Raises SetupError if the workspace does not answer."""
        with asking():
            self.runs = {
                run.run_id or 0: name
                for job, name in self.jobs.items()
                for run in self.client.jobs.list_runs(job_id=job, active_only=True)
            }

    def wait(self, tell: Callable[[str], None], patience: float, every: float = 5.0) -> None:
        """Wait until the runs have ended, and cancel those that have not after so many seconds.

        A batch that is cancelled is not there at all, or is taken up by the next run. Raises SetupError if the
        workspace does not answer.
        """
        deadline = time.monotonic() + patience
        while self.runs and time.monotonic() < deadline:
            for run, name in list(self.runs.items()):
                if self._has_ended(run):
                    del self.runs[run]
                    tell(f"{name}: its run has ended; the next one runs what was deployed")
            if self.runs:
                time.sleep(every)
        for run, name in self.runs.items():
            with asking():
                self.client.jobs.cancel_run(run)
            tell(f"{name}: its run was cancelled, for it went on; the next one runs what was deployed")

    def _has_ended(self, run: int) -> bool:
        with asking():
            return bool(self.client.jobs.get_run(run).end_time)
