"""How and where an application is deployed: the bundle's variables, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from kaspr_delta.errors import NotFoundError, UsageError
from kaspr_delta.jobs.package import Package
from kaspr_delta.jobs.principal import Principal
from kaspr_delta.spec.cron import quartz_problem, timezone_problem

Mode = Literal["scheduled", "continuous"]
ComputeKind = Literal["default", "serverless", "cluster"]

_SWITCHES = ("read_as_visitor",)
_LISTS = ("notify", "viewers", "operators", "readers", "owners")
_NUMBERS = {"workers": 0, "retries": 0, "timeout_minutes": 1, "backlog_bytes": 0}
_MAIL = re.compile(r"[^@\s]+@[^@\s]+")


@dataclass(frozen=True, slots=True)
class Deployment:
    """One target's settings. Raises UsageError for settings that a workspace would refuse or misunderstand.

    ``application`` is a folder name in ``bundles/``, ``target`` a target of the bundle. Jobs and the App install
    ``package``. If ``schedule`` or ``timezone`` is empty, the KasprApp's annotation applies, or else every quarter of
    an hour, UTC. If ``schema`` is empty, each application has the schema that its plan names. If ``location`` is a URI,
    tables are external ones below it; else the catalog manages them. ``developer`` is the user whose copy this is: the
    names of its schema, its folder and its App contain it; empty: there is one copy for all.

    Jobs run as ``run_as``, or as the identity that deploys. ``readers`` may read the schema, ``owners`` also manage it.

    ``compute`` ``default`` is serverless for scheduled jobs and a job cluster for continuous ones; ``spark_version``,
    ``node_type`` and ``workers`` describe that cluster, which without workers is a single node.

    A failed task is retried ``retries`` times, and no task runs longer than ``timeout_minutes``; neither applies to
    continuous jobs. ``notify`` are mail addresses for failures and for more than ``backlog_bytes`` of unread data (0:
    no limit). ``sql_warehouse`` is the id of the SQL warehouse through which a Databricks App reads the tables; empty:
    no App is deployed. With ``read_as_visitor`` the App gets the tokens of its visitors, and reads as them.
    """

    application: str = "order-system"
    target: str = "dev"
    package: Package = field(default_factory=Package)
    mode: Mode = "scheduled"
    schedule: str = ""
    timezone: str = ""
    catalog: str = "main"
    schema: str = ""
    location: str = ""
    developer: str = ""
    compute: ComputeKind = "default"
    spark_version: str = "17.3.x-scala2.13"
    node_type: str = "i3.xlarge"
    workers: int = 1
    environment_version: str = "4"
    retries: int = 2
    timeout_minutes: int = 360
    notify: tuple[str, ...] = ()
    backlog_bytes: int = 1_000_000_000
    run_as: Principal | None = None
    viewers: tuple[Principal, ...] = ()
    operators: tuple[Principal, ...] = ()
    readers: tuple[Principal, ...] = ()
    owners: tuple[Principal, ...] = ()
    sql_warehouse: str = ""
    read_as_visitor: bool = False

    def __post_init__(self) -> None:
        _one_of("mode", self.mode, get_args(Mode))
        _one_of("compute", self.compute, get_args(ComputeKind))
        for name in ("application", "target", "catalog", "spark_version", "node_type", "environment_version"):
            if not getattr(self, name).strip():
                msg = f"variable {name!r} is empty"
                raise UsageError(msg)
        for name, least in _NUMBERS.items():
            if getattr(self, name) < least:
                msg = f"variable {name!r} is {getattr(self, name)}, expected {least} or more"
                raise UsageError(msg)
        if self.mode == "scheduled":
            _refuse("schedule", quartz_problem(self.schedule) if self.schedule else None)
            _refuse("timezone", timezone_problem(self.timezone) if self.timezone else None)
        for address in self.notify:
            _refuse("notify", None if _MAIL.fullmatch(address) else f"{address!r} is no mail address")

    @classmethod
    def from_variables(cls, variables: Mapping[str, Any], target: str = "dev") -> Deployment:
        """The deployment to a target that the bundle's variables describe; variables of other names are ignored."""
        settings: dict[str, Any] = {"target": target}
        for name in cls.__slots__:
            if name in variables and name != "target":
                settings[name] = _setting(name, str(variables[name]).strip())
        return cls(**settings)

    @property
    def folder(self) -> str:
        """The application's folder below the bundle's root."""
        return f"bundles/{self.application}"

    @property
    def serverless(self) -> bool:
        """Whether tasks run on serverless compute."""
        return self.compute == "serverless" or (self.compute == "default" and self.mode == "scheduled")


def _setting(name: str, text: str) -> Any:
    """The value of a variable's text. Raises UsageError if the text is not valid."""
    if name in _NUMBERS:
        if not text.isdecimal():
            msg = f"variable {name!r} is {text!r}, expected a number"
            raise UsageError(msg)
        return int(text)
    if name in _SWITCHES:
        _one_of(name, text, ("true", "false"))
        return text == "true"
    if name in _LISTS:
        listed = tuple(part for part in (part.strip() for part in text.split(",")) if part)
        return listed if name == "notify" else tuple(map(Principal.of, listed))
    if name == "package":
        return Package.of(text)
    if name == "run_as":
        return Principal.of(text) if text else None
    return text


def _one_of(variable: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        problem = NotFoundError.among(f"value for variable {variable!r}:", value, known)
        raise UsageError(str(problem))


def _refuse(variable: str, problem: str | None) -> None:
    if problem is not None:
        msg = f"variable {variable!r}: {problem}"
        raise UsageError(msg)
