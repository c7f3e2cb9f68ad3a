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
    Webhook,
    WebhookNotifications,
)

from kaspr_delta.jobs.deployment import Deployment


def mails(deployment: Deployment) -> JobEmailNotifications | None:
    """Mails about failures and about a backlog over the limit; None without mail addresses."""
    if not deployment.notify:
        return None
    return JobEmailNotifications(
        on_failure=list(deployment.notify), on_streaming_backlog_exceeded=list(deployment.notify)
    )


def webhooks(deployment: Deployment) -> WebhookNotifications | None:
    """The same for notification destinations of the workspace, such as a channel of Slack or PagerDuty."""
    if not deployment.webhooks:
        return None
    wanted = [Webhook(id=one) for one in deployment.webhooks]
    return WebhookNotifications(on_failure=wanted, on_streaming_backlog_exceeded=wanted)  # type: ignore[arg-type]  # lists are invariant


def notification_settings(deployment: Deployment) -> JobNotificationSettings | None:
    """No notifications about cancelled and skipped runs, because the user who causes one knows; None without others."""
    if not (deployment.notify or deployment.webhooks):
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
