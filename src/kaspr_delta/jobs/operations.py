"""The job with which people operate an application: it runs one command, such as a rebuild, when somebody starts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from databricks.bundles.jobs import CronSchedule, Job, JobParameterDefinition, PerformanceTarget, QueueSettings

from kaspr_delta.errors import UsageError
from kaspr_delta.jobs.job import JobBuilder
from kaspr_delta.settings import OPERATION, OPERATION_PARAMETER, PURPOSE_TAG
from kaspr_delta.spec.cron import quartz_longest_pause

_DEFAULT = "status"
_DESCRIPTION = (
    "Commands for people: rebuild KIND/NAME, dead-letters [--retry --only-failed], delete KIND NAME [--purge], status,"
    " purge --yes"
)


# How often a check starts, unless the deployment says it: a start of a cluster takes minutes.
_EACH_HOUR, _EACH_DAY = "0 0 * * * ?", "0 0 6 * * ?"
# Hours: a check may start late.
_SLACK = 1
_ANOTHER = "another_doctor"
# The parameter of the doctor's job that says whether a note fails it.
_NOTES = "notes"


def operations_job(builder: JobBuilder, *, endless: bool) -> Job:
    """The job of a builder's application. A run that is started during another waits for its turn.

    Its parameter holds the command; ``kaspr-delta-task`` knows the commands that it may run. The job ends, so it is on
    serverless compute unless all is on clusters. People start it. Beside ``endless`` runs, which go on with the healthy
    resources, a schedule starts it too: with the command that fails while a resource is unhealthy. Raises UsageError
    for a ``check_schedule`` beside runs that end.
    """
    of = replace(builder, deployment=builder.deployment.of_operations())
    given = f"{{{{job.parameters.{OPERATION_PARAMETER}}}}}"
    where = ["--app", of.plan.application, "--warehouse", of.storage.warehouse, *of.deployment.values_option]
    # It is not tried again, and starts in seconds: somebody waits for the answer.
    task = of.compute.task(OPERATION, given, [OPERATION, *of.manifests, given, *where])
    task.timeout_seconds = of.deployment.timeout_minutes * 60
    job = of.job(f"{of.plan.application}: operations", [task])
    job.performance_target = PerformanceTarget.PERFORMANCE_OPTIMIZED if of.deployment.serverless else None
    job.description = _DESCRIPTION
    command = _DEFAULT
    wanted = builder.deployment
    if endless and wanted.waiting == "fail":
        often = wanted.check_schedule or (_EACH_HOUR if of.deployment.serverless else _EACH_DAY)
        command = (
            f"{_DEFAULT} --exit-code --grace {wanted.waiting_grace} --within {quartz_longest_pause(often) + _SLACK}h"
        )
        job.schedule = CronSchedule(quartz_cron_expression=often, timezone_id=builder.timezone)
    elif wanted.check_schedule:
        raise UsageError("variable 'check_schedule': nothing is checked unless a run never ends and 'waiting' is fail")
    job.parameters = [JobParameterDefinition(name=OPERATION_PARAMETER, default=command)]
    job.queue = QueueSettings(enabled=True)
    job.tags = {**of.compute.tags, "manifests": of.revision, PURPOSE_TAG: OPERATION}
    return job


def doctor_job(builder: JobBuilder, started: str = "", others: Sequence[str] = (), app: str = "") -> Job:
    """The job that probes the workspace when somebody starts it, on the compute of the application's own tasks.

    It has two tasks that begin at once, on two machines: the second doctor looks at the lease of the first one.
    ``started`` is the key in the bundle of the job that a clock starts beside updates of tables; empty: there is none.
    ``others`` are the keys of the application's other jobs, ``app`` is the service principal of its App, if it has one.
    """
    of, title = builder.deployment, f"{builder.plan.application}: doctor"
    where = ["--app", builder.plan.application, "--warehouse", builder.storage.warehouse, *of.values_option]
    rights = ["--started-job", f"${{resources.jobs.{started}.id}}"] if started else []
    # Alerts run as the identity of the tasks, unless that is a group.
    if of.alert_schedule and (of.run_as is None or of.run_as.kind != "group"):
        rights += ["--sql-warehouse", of.sql_warehouse]
    rights += [text for key in others for text in ("--job", f"${{resources.jobs.{key}.id}}")]
    rights += ["--app-principal", app] if app else []
    if of.sql_warehouse:  # there is a dashboard
        watchers = dict.fromkeys(one.name for one in (*of.viewers, *of.operators))
        rights += ["--dashboard-warehouse", of.sql_warehouse]
        rights += [text for name in watchers for text in ("--watcher", name)]
    notes = ["--notes", f"{{{{job.parameters.{_NOTES}}}}}"]
    folder = f"${{workspace.file_path}}/{of.folder}"
    parameters = [*where, "doctor", "--in-pair", *notes, *builder.granting(), *rights, folder]
    tasks = [builder.compute.task(key, title, parameters) for key in ("doctor", _ANOTHER)]
    for task in tasks:
        task.timeout_seconds = of.timeout_minutes * 60
    job = builder.job(title, tasks)
    job.parameters = [JobParameterDefinition(name=_NOTES, default="pass")]
    if not of.serverless:
        tasks[1].job_cluster_key, job.job_clusters = _ANOTHER, builder.compute.clusters(_ANOTHER)
    job.description = "Probes the warehouse, sources, privileges and streams, and says what the engine does about each"
    return job
