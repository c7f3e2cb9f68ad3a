"""The schema of a deployed application in its workspace: the application that made it, and the jobs that use it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kaspr_delta.settings import APPLICATION_MARK, OPERATION, PURPOSE_TAG
from kaspr_delta.workspace.deployed import asking, tag

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.service.jobs import BaseJob


class User(NamedTuple):
    """A job that works on a schema: its application and target, and whether a run is under way.

    ``operates``: it is the job for operations.
    """

    application: str
    target: str
    job: str
    runs: bool
    operates: bool


@dataclass(frozen=True, slots=True)
class DeployedSchema:
    """A schema of Unity Catalog by its full name, ``catalog.schema``."""

    client: WorkspaceClient
    name: str

    def made_by(self) -> str | None:
        """The application that made it, as a schema is called; empty if others made it, None if it does not exist.

        Raises SetupError if the workspace does not answer.
        """
        from databricks.sdk.errors import NotFound

        with asking():
            try:
                found = self.client.schemas.get(self.name)
            except NotFound:
                return None
        return (found.properties or {}).get(APPLICATION_MARK, "")

    def tables(self) -> int:
        """The number of its tables and views. Raises SetupError if the workspace does not answer."""
        catalog, _, schema = self.name.partition(".")
        with asking():
            return sum(1 for _ in self.client.tables.list_summaries(catalog, schema_name_pattern=schema))

    def users(self) -> list[User]:
        """The jobs that work on it. Raises SetupError."""
        with asking():
            return [
                User(
                    tag(job, "application"),
                    tag(job, "target"),
                    (job.settings.name if job.settings else None) or "",
                    any(self.client.jobs.list_runs(job_id=job.job_id, active_only=True)),
                    operates=tag(job, PURPOSE_TAG) == OPERATION,
                )
                for job in self.client.jobs.list(expand_tasks=True)
                if self._is_warehouse_of(job)
            ]

    def remove(self) -> None:
        """Delete it with all its tables and volumes. Raises SetupError if the workspace does not answer."""
        with asking():
            self.client.schemas.delete(self.name, force=True)

    def _is_warehouse_of(self, job: BaseJob) -> bool:
        tasks = (job.settings.tasks if job.settings else None) or []
        parameters = [
            text for task in tasks if task.python_wheel_task for text in task.python_wheel_task.parameters or []
        ]
        catalog, _, schema = map(re.escape, self.name.partition("."))
        # Unity Catalog knows names in any case.
        own = re.compile(rf"unity://{catalog}\.({schema}/|[^?]+\?internal={schema}(&|$))", re.IGNORECASE)
        return any(own.match(text) for text in parameters)
