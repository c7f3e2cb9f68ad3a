"""When the Databricks job of an application runs. On a laptop it has no effect."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobSchedule:
    """When the job of an application runs, where its KasprApp says so: quartz cron text, and a time zone."""

    quartz: str | None = None
    timezone: str | None = None
