"""Notifications about jobs that fail or fall behind, and permissions to view and run jobs."""

from __future__ import annotations

from databricks.bundles.jobs import JobDict, JobPermission, JobPermissionLevel, JobsHealthRules, Webhook

from kaspr_delta.jobs.deployment import Deployment


def oversight(deployment: Deployment) -> JobDict:
    """The settings of a job by which others than its owner learn of it, and see and run it.

    Mails and notification destinations of the workspace, such as a channel of Slack or PagerDuty, tell about failures
    and about a backlog over the limit. Viewers see a job, operators also run and cancel it.
    """
    settings: JobDict = {
        "permissions": [
            *(JobPermission(level=JobPermissionLevel.CAN_VIEW, **one.grantee) for one in deployment.viewers),
            *(JobPermission(level=JobPermissionLevel.CAN_MANAGE_RUN, **one.grantee) for one in deployment.operators),
        ]
    }
    mails, webhooks = deployment.notify, [Webhook(id=one) for one in deployment.webhooks]
    if mails:
        settings["email_notifications"] = {"on_failure": [*mails], "on_streaming_backlog_exceeded": [*mails]}
    if webhooks:
        settings["webhook_notifications"] = {"on_failure": [*webhooks], "on_streaming_backlog_exceeded": [*webhooks]}
    if mails or webhooks:
        # The user who causes a cancelled or skipped run knows of it.
        settings["notification_settings"] = {"no_alert_for_canceled_runs": True, "no_alert_for_skipped_runs": True}
    return settings


def health(deployment: Deployment) -> JobsHealthRules | None:
    """The rule: a job is unhealthy while its streams have more than ``backlog_bytes`` to read; None without a limit."""
    if not deployment.backlog_bytes:
        return None
    # Delta sources report their backlog in bytes and files, not in records or seconds.
    return JobsHealthRules.from_dict(
        {"rules": [{"metric": "STREAMING_BACKLOG_BYTES", "op": "GREATER_THAN", "value": deployment.backlog_bytes}]}
    )
