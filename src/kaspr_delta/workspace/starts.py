"""A short description of the trigger of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from databricks.sdk.service.jobs import JobSettings, PauseStatus


def starts_of(settings: JobSettings) -> str:
    """The schedule, the interval, ``continuous`` or ``on demand``; and whether it is paused."""
    if settings.schedule is not None:
        cron = settings.schedule
        return f"{cron.quartz_cron_expression} {cron.timezone_id}{_paused(cron.pause_status)}"
    if settings.continuous is not None:
        return f"continuous{_paused(settings.continuous.pause_status)}"
    if settings.trigger is not None and settings.trigger.periodic is not None:
        every = settings.trigger.periodic
        return f"every {every.interval} {every.unit.value.lower()}{_paused(settings.trigger.pause_status)}"
    return "on demand"


def _paused(status: PauseStatus | None) -> str:
    return " (paused)" if status is not None and status.value == "PAUSED" else ""
