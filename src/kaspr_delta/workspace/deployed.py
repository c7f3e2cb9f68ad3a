"""The jobs of deployed applications and their runs, read through databricks-sdk.

Jobs are found by the tags that the bundle sets, so neither the bundle's files nor its CLI are needed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from kaspr_delta.errors import NotFoundError, SetupError, first_line
from kaspr_delta.settings import JOB_FRAMEWORK
from kaspr_delta.workspace.login import take_login

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.service.jobs import BaseJob, BaseRun, JobSettings, PauseStatus, RunState, RunTask
    from databricks.sdk.service.jobs import Run as FullRun
    from typing_extensions import Self

# The tag that jobs of a target in development mode get from the CLI.
_DEVELOPMENT = "dev"
_FAILED = frozenset({"FAILED", "TIMEDOUT", "INTERNAL_ERROR", "MAXIMUM_CONCURRENT_RUNS_REACHED"})


@dataclass(frozen=True, slots=True)
class TaskRun:
    """One attempt of a job's task, which runs ``resources``, as ``kind/name``, or ``everything``."""

    id: int
    key: str
    resources: tuple[str, ...]
    everything: bool
    state: str
    message: str

    @property
    def failed(self) -> bool:
        """Whether it ended in a failure."""
        return self.state in _FAILED


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a job. ``state`` is its result or, without a result yet, its life cycle state.

    ``seconds`` is its duration, ``trigger`` the kind of its start, such as ``PERIODIC`` or ``ONE_TIME``. A queued run
    has no ``started``.
    """

    id: int
    started: datetime | None
    seconds: float | None
    trigger: str
    state: str
    message: str
    url: str
    tasks: tuple[TaskRun, ...]

    @property
    def failed(self) -> bool:
        """Whether it ended in a failure."""
        return self.state in _FAILED


@dataclass(frozen=True, slots=True)
class DeployedJob:
    """A job of an application, with its newest runs first. ``starts`` describes its trigger (see ``_starts_of``)."""

    id: int
    name: str
    application: str
    starts: str
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Output:
    """The output of a task, and the error with which it failed."""

    text: str
    error: str
    truncated: bool


@dataclass(frozen=True, slots=True)
class Workspace:
    """A Databricks workspace."""

    client: WorkspaceClient

    @classmethod
    def connect(cls, profile: str | None = None) -> Self:
        """The workspace of a profile in ``~/.databrickscfg``; without a profile, the workspace of the environment.

        Raises SetupError if databricks-sdk is missing or no login is configured.
        """
        try:
            from databricks.sdk import WorkspaceClient
        except ImportError as error:
            msg = "databricks-sdk is not installed: pip install 'kaspr-delta[deploy]'"
            raise SetupError(msg) from error
        try:
            return cls(WorkspaceClient(profile=profile, product="kaspr-delta"))
        except ValueError as error:
            remedy = "Log in with `databricks auth login`, or name a --profile"
            msg = f"no Databricks workspace: {first_line(error)}. {remedy}"
            raise SetupError(msg) from error

    @classmethod
    def of_target(cls, target: str, profile: str | None = None) -> Self:
        """The workspace of a target: the one on which the Databricks CLI works, with its login.

        Away from a bundle, and without the CLI, it is that of ``connect``. Raises SetupError as ``connect``, and if the
        CLI has no login.
        """
        return cls.connect(None if take_login(target, profile) else profile)

    def jobs(self, target: str, application: str | None = None, *, runs: int = 1) -> tuple[DeployedJob, ...]:
        """The jobs that were deployed to a target, sorted by name, each with its ``runs`` newest runs.

        For a development target only the jobs that this user deployed, because every user has their own.
        Raises NotFoundError if there are none, and SetupError if the workspace does not answer.
        """
        deployed = self.deployed(target, application)
        with asking():
            found = [self._job(job, runs) for job in deployed]
        return tuple(sorted(found, key=lambda job: job.name))

    def deployed(self, target: str, application: str | None = None) -> list[BaseJob]:
        """The same jobs as the workspace describes them, without their runs."""
        with asking():
            deployed = [job for job in self.client.jobs.list() if tag(job, "framework") == JOB_FRAMEWORK]
            chosen = [
                job
                for job in deployed
                if tag(job, "target") == target and application in {None, tag(job, "application")}
            ]
            if not chosen:
                raise _nothing_there(deployed, target, application)
            return self._own(chosen)

    def _own(self, jobs: list[BaseJob]) -> list[BaseJob]:
        """The jobs without other users' development jobs, which the CLI tags. Raises NotFoundError if none is left."""
        if not any(tag(job, _DEVELOPMENT) for job in jobs):
            return jobs
        me = self.client.current_user.me().user_name
        own = [job for job in jobs if not tag(job, _DEVELOPMENT) or job.creator_user_name == me]
        if not own:
            msg = f"{me} has deployed nothing there: databricks bundle deploy, or ask with the profile that did"
            raise NotFoundError(msg)
        return own

    def output(self, task: TaskRun) -> Output:
        """The output of one attempt of a task. Raises SetupError if the workspace does not answer."""
        with asking():
            found = self.client.jobs.get_run_output(task.id)
        error = "\n".join(part for part in (found.error, found.error_trace) if part)
        return Output(found.logs or "", error, bool(found.logs_truncated))

    def _job(self, job: BaseJob, runs: int) -> DeployedJob:
        number = job.job_id or 0
        newest = islice(self.client.jobs.list_runs(job_id=number, expand_tasks=True), runs)
        settings = job.settings
        return DeployedJob(
            id=number,
            name=(settings.name if settings else None) or "",
            application=tag(job, "application"),
            starts=_starts_of(settings) if settings else "",
            runs=tuple(run_of(run) for run in newest),
        )


def _starts_of(settings: JobSettings) -> str:
    """The schedule, the interval, ``continuous`` or ``on demand``; and whether it is paused."""
    if settings.schedule is not None:
        cron = settings.schedule
        return f"{cron.quartz_cron_expression} {cron.timezone_id}{_paused(cron.pause_status)}"
    if settings.continuous is not None:
        return f"continuous{_paused(settings.continuous.pause_status)}"
    if (trigger := settings.trigger) is not None and trigger.periodic is not None:
        return f"every {trigger.periodic.interval} {trigger.periodic.unit.value.lower()}{_paused(trigger.pause_status)}"
    if trigger is not None and trigger.table_update is not None:
        return f"after updates of {', '.join(trigger.table_update.table_names or [])}{_paused(trigger.pause_status)}"
    return "on demand"


def _paused(status: PauseStatus | None) -> str:
    return " (paused)" if status is not None and status.value == "PAUSED" else ""


def run_of(run: BaseRun | FullRun) -> Run:
    """A run as the workspace describes it."""
    took = (run.end_time - run.start_time) / 1_000 if run.start_time and run.end_time else None
    state, message = _state(run.state)
    return Run(
        id=run.run_id or 0,
        started=datetime.fromtimestamp(run.start_time / 1_000, tz=timezone.utc) if run.start_time else None,
        seconds=took,
        trigger=run.trigger.value if run.trigger else "",
        state=state,
        message=message,
        url=run.run_page_url or "",
        # A condition runs no code, and has no output.
        tasks=tuple(_task(task) for task in run.tasks or [] if task.condition_task is None),
    )


def _task(task: RunTask) -> TaskRun:
    wheel = task.python_wheel_task
    parameters = (wheel.parameters if wheel else None) or []
    named = tuple(after for before, after in pairwise(parameters) if before == "--only")
    state, message = _state(task.state)
    everything = not named and parameters[:1] == ["run"]
    return TaskRun(task.run_id or 0, task.task_key, named, everything, state, message)


def _state(state: RunState | None) -> tuple[str, str]:
    """The result of a run or, without a result yet, its life cycle state; and Databricks' message about it."""
    known = (state.result_state or state.life_cycle_state) if state else None
    return (known.value if known else "UNKNOWN"), (state.state_message if state else None) or ""


def tag(job: BaseJob, name: str) -> str:
    """A tag of a job, by its name; empty if it has none."""
    tags = (job.settings.tags if job.settings else None) or {}
    return tags.get(name, "")


def _nothing_there(deployed: list[BaseJob], target: str, application: str | None) -> NotFoundError:
    targets = sorted({tag(job, "target") for job in deployed})
    if target not in targets:
        return NotFoundError.among("deployed target", target, targets)
    there = sorted({tag(job, "application") for job in deployed if tag(job, "target") == target})
    return NotFoundError.among("deployed application", application or "", there)


@contextlib.contextmanager
def asking() -> Iterator[None]:
    """Call the workspace; its errors become SetupError."""
    from databricks.sdk.errors.base import DatabricksError

    try:
        yield
    except (DatabricksError, OSError, TimeoutError) as error:
        msg = f"the workspace does not answer as expected: {error}"
        raise SetupError(msg) from error
