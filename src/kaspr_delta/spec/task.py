"""KasprTask: a pipeline that runs by the clock, or once at the start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from kaspr_delta.spec.base import Boolean, Problem, Spec, Text, exactly_one, optional
from kaspr_delta.spec.cron import cron_problem, known_timezones, timezone_problem
from kaspr_delta.spec.durations import PositiveDuration
from kaspr_delta.spec.near import suggestion
from kaspr_delta.spec.processors import Processors
from kaspr_delta.spec.resource import Resource, ResourceSpec


class Schedule(Spec):
    """When a task runs: every ``interval``, or by ``cron`` in a ``timezone`` (UTC unless given)."""

    interval: PositiveDuration | None = optional("the time between two runs, such as '15m'")
    cron: Text | None = optional("five fields, or six with the seconds last")
    timezone: Text | None = optional("an IANA name for `cron`, such as 'Europe/Berlin'; else UTC")

    @classmethod
    def combination_problems(cls, written: Mapping[str, Any]) -> Iterator[Problem]:
        hint = "`interval: 15m` or `cron: '*/15 * * * *'`; a task that runs once has no schedule"
        yield from exactly_one(written, ("interval", "cron"), "a schedule", hint)

    def problems(self) -> Iterator[Problem]:
        if self.cron and (wrong := cron_problem(self.cron)):
            yield Problem(wrong, "for example '0 9 * * mon-fri'", ("cron",))
        if self.timezone and (wrong := timezone_problem(self.timezone)):
            yield Problem(wrong, suggestion(self.timezone, known_timezones()), ("timezone",))


class TaskSpec(ResourceSpec):
    """The fields of a task."""

    on_leader: Boolean = False
    schedule: Schedule | None = optional("when it runs; without it once at the start")
    processors: Processors = Field(description="`pipeline` and `operations`")


class KasprTask(Resource):
    """A task manifest."""

    kind: Literal["KasprTask"]
    spec: TaskSpec = Field(description="at least `processors`")
