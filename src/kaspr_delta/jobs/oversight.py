"""Notifications about jobs that fail or fall behind, and permissions to view and run jobs."""

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
    """Mails about failures and about a backlog over the limit; None without mail addresses."""
    if not deployment.notify:
        return None
    return JobEmailNotifications(
        on_failure=list(deployment.notify), on_streaming_backlog_exceeded=list(deployment.notify)
    )


def notification_settings(deployment: Deployment) -> JobNotificationSettings | None:
    """No mails about cancelled and skipped runs, because the user who causes one knows; None without addresses."""
    if not deployment.notify:
        return None
    return JobNotificationSettings(no_alert_for_canceled_runs=True, no_alert_for_skipped_runs=True)


def health(deployment: Deployment) -> JobsHealthRules | None:
    """The rule: a job is unhealthy while its streams have more than ``backlog_bytes`` to read; None without a limit."""
    if not deployment.backlog_bytes:
        return None
    rule = JobsHealthRule(
        # Delta sources report their backlog in bytes and files, not in records or seconds.
        metric=JobsHealthMetric.STREAMING_BACKLOG_BYTES,
        op=JobsHealthOperator.GREATER_THAN,
        value=deployment.backlog_bytes,
    )
    return JobsHealthRules(rules=[rule])


def permissions(deployment: Deployment) -> list[JobPermission]:
    """The permissions of others than the owner: viewers see a job, operators also run and cancel it."""
    return [
        *(JobPermission(level=JobPermissionLevel.CAN_VIEW, **one.grantee) for one in deployment.viewers),
        *(JobPermission(level=JobPermissionLevel.CAN_MANAGE_RUN, **one.grantee) for one in deployment.operators),
    ]
