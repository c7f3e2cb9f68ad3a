"""The schedule of an application's Databricks job. On a laptop it has no effect."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobSchedule:
    """A Quartz cron expression and a time zone; None if the KasprApp does not give them."""

    quartz: str | None = None
    timezone: str | None = None
