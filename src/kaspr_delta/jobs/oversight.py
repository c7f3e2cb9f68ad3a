"""Who is told when a job fails or falls behind, and who may look at it or run it."""

from __future__ import annotations

from databricks.bundles.jobs import (
    JobEmailNotifications,
    JobNotificationSettings,
    JobPermission,
    JobPermissionLevel,
    JobsHealthMetric,
    JobsHealthOperator,
    JobsHealthRule,
    JobsHealthRules,
)

from kaspr_delta.jobs.deployment import Deployment


def notifications(deployment: Deployment) -> JobEmailNotifications | None:
    """Mails about failures and about a backlog that grows; None where nobody wants any."""
    if not deployment.notify:
        return None
    return JobEmailNotifications(
        on_failure=list(deployment.notify), on_streaming_backlog_exceeded=list(deployment.notify)
    )


def notification_settings(deployment: Deployment) -> JobNotificationSettings | None:
    """Whoever cancels or leaves out a run knows of it."""
    if not deployment.notify:
        return None
    return JobNotificationSettings(no_alert_for_canceled_runs=True, no_alert_for_skipped_runs=True)


def health(deployment: Deployment) -> JobsHealthRules | None:
    """A job is unhealthy while its streams have more bytes before them than was said; None without a limit."""
    if not deployment.backlog_bytes:
        return None
    rule = JobsHealthRule(
        # Of Delta sources bytes and files are known, neither records nor seconds.
        metric=JobsHealthMetric.STREAMING_BACKLOG_BYTES,
        op=JobsHealthOperator.GREATER_THAN,
        value=deployment.backlog_bytes,
    )
    return JobsHealthRules(rules=[rule])


def permissions(deployment: Deployment) -> list[JobPermission]:
    """What others than the owner may do: look at a job, or also run and cancel it."""
    return [
        *(JobPermission(level=JobPermissionLevel.CAN_VIEW, **one.grantee) for one in deployment.viewers),
        *(JobPermission(level=JobPermissionLevel.CAN_MANAGE_RUN, **one.grantee) for one in deployment.operators),
    ]
