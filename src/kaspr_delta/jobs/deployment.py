"""How and where an application is deployed: the bundle's variables, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from kaspr_delta.errors import NotFoundError, UsageError
from kaspr_delta.jobs.cloud import Cloud
from kaspr_delta.jobs.package import Package
from kaspr_delta.jobs.principal import Principal
from kaspr_delta.settings import OLDEST_ENVIRONMENT, OLDEST_RUNTIME
from kaspr_delta.spec.cron import quartz_problem, timezone_problem
from kaspr_delta.spec.durations import interval

ComputeKind = Literal["default", "serverless", "cluster"]

_NOT_EMPTY = ("application", "target", "catalog", "spark_version", "environment_version")
_OF_CLUSTERS = ("node_type", "workers", "spot", "instance_pool_id", "policy_id")
_OF_SERVERLESS = ("base_environment", "usage_policy_id")
_DURATIONS = ("every", "waiting_grace")
_LOOKS = ("alert_schedule", "check_schedule")
_LIMITS_OF_ALERTS = ("alert_silence", "alert_delay")
_LEAST = {"workers": 0, "retries": 0, "timeout_minutes": 1, "backlog_bytes": 0}
_MAIL = re.compile(r"[^@\s]+@[^@\s]+")


@dataclass(frozen=True, slots=True)
class Deployment:
    """One target's settings. Raises UsageError for settings that a workspace would refuse or misunderstand.

    ``application`` is a folder name in ``bundles/``, ``target`` a target of the bundle. Jobs and the App install
    ``package``. If ``schedule`` or ``timezone`` is empty, the KasprApp's annotation applies, or else every quarter of
    an hour, UTC. If ``schema`` is empty, each application has the schema that its plan names; ``schema_prefix`` stands
    before either, so that several targets may share a catalog. If ``location`` is a URI, tables are external ones below
    it; else the catalog manages them. ``values`` is the file of values for the manifests, below the application's
    folder; empty: they have their defaults. Internal tables and channels are in a schema whose name has the
    ``internal_suffix`` behind; empty: in that of the results. ``developer`` is the user whose copy this is: the names
    of its schema, its folder and its App contain it; empty: there is one copy for all.

    Jobs run as ``run_as``, or as the identity that deploys. ``readers`` may read the schema, ``owners`` also manage it.

    ``layout`` says which resources one task runs: see ``work.work_of``. With the ``trigger`` ``table_update`` a
    scheduled job starts when a table that others write has changed, and by the schedule (or else once a day) all the
    same. ``every`` is the pause between two batches of a continuous run.

    ``compute`` ``default`` is serverless for scheduled jobs and a job cluster for continuous ones. Serverless compute
    has an ``environment_version`` or a ``base_environment``, a ``performance_target`` and the ``usage_policy_id`` to
    which it is billed. ``spark_version``, ``node_type`` and ``workers`` describe a cluster, which without workers is a
    single node; ``node_type`` is empty for a usual one of the cloud at ``host``, or if the nodes come from the pool
    ``instance_pool_id`` or the cluster policy ``policy_id``. ``spot``: nodes that the cloud may take away.

    A run tries ``retries`` times more what may go well then, and no task runs longer than ``timeout_minutes``; neither
    applies to continuous jobs. With ``waiting`` ``fail`` a task fails if a resource has waited for ``waiting_grace``.
    Beside runs that never end the job for operations does so: it looks by ``check_schedule``, quartz cron text, or else
    each hour, on clusters each day.

    ``notify`` are mail addresses, and ``webhooks`` ids of notification destinations, for failures and for more than
    ``backlog_bytes`` of unread data (0: no limit).

    ``sql_warehouse`` is the id of the SQL warehouse through which a Databricks App reads the tables, and a dashboard
    too; empty: neither is deployed. ``alert_schedule``, quartz cron text, says when it looks for what calls for
    somebody; empty: never. Such a thing is a resource without a batch for ``alert_silence``, or one that reads changes
    later than ``alert_delay`` after their commits; empty: it is not. With ``read_as_visitor`` the App gets the tokens
    of its visitors, and reads as them.
    """

    application: str = "order-system"
    target: str = "dev"
    package: Package = field(default_factory=Package)
    mode: Literal["scheduled", "continuous"] = "scheduled"
    layout: Literal["default", "one", "group", "resource"] = "default"
    trigger: Literal["schedule", "table_update"] = "schedule"
    schedule: str = ""
    timezone: str = ""
    every: str = "5s"
    catalog: str = "main"
    schema: str = ""
    schema_prefix: str = ""
    location: str = ""
    values: str = ""
    internal_suffix: str = ""
    developer: str = ""
    compute: ComputeKind = "default"
    environment_version: str = "4"
    base_environment: str = ""
    performance_target: Literal["standard", "performance_optimized"] = "standard"
    usage_policy_id: str = ""
    spark_version: str = "17.3.x-scala2.13"
    node_type: str = ""
    workers: int = 0
    spot: bool = False
    instance_pool_id: str = ""
    policy_id: str = ""
    host: str = ""
    retries: int = 2
    timeout_minutes: int = 360
    waiting: Literal["fail", "note"] = "fail"
    waiting_grace: str = "1h"
    check_schedule: str = ""
    notify: tuple[str, ...] = ()
    webhooks: tuple[str, ...] = ()
    backlog_bytes: int = 1_000_000_000
    run_as: Principal | None = None
    viewers: tuple[Principal, ...] = ()
    operators: tuple[Principal, ...] = ()
    readers: tuple[Principal, ...] = ()
    owners: tuple[Principal, ...] = ()
    sql_warehouse: str = ""
    alert_schedule: str = ""
    alert_silence: str = ""
    alert_delay: str = ""
    read_as_visitor: bool = False

    def __post_init__(self) -> None:
        for name, kind in _TYPES.items():
            if get_origin(kind) is Literal:
                _one_of(name, getattr(self, name), get_args(kind))
        for name in _NOT_EMPTY:
            if not getattr(self, name).strip():
                _refuse(name, "it is empty")
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                _refuse(name, f"it is {getattr(self, name)}, expected {least} or more")
        for name in _DURATIONS:
            interval(f"variable {name!r}:", getattr(self, name))
        if self.mode == "scheduled":
            _refuse("schedule", quartz_problem(self.schedule) if self.schedule else None)
        for address in self.notify:
            _refuse("notify", None if _MAIL.fullmatch(address) else f"{address!r} is no mail address")
        self._check_names()
        self._check_combinations()
        self._check_looks()

    def _check_combinations(self) -> None:
        version = self.environment_version
        if version.isdecimal() and int(version) < OLDEST_ENVIRONMENT:
            _refuse("environment_version", f"{version} is too old, expected {OLDEST_ENVIRONMENT} or more")
        runtime = re.match(r"\d+(?=\.)", self.spark_version)
        if runtime is not None and int(runtime[0]) < OLDEST_RUNTIME:
            _refuse("spark_version", f"{self.spark_version} is too old, expected {OLDEST_RUNTIME} or more")
        for name, part in {"schema_prefix": self.schema_prefix, "internal_suffix": self.internal_suffix}.items():
            if not re.fullmatch(r"[a-z0-9_]*", part):
                _refuse(name, f"{part!r} is no part of a name: small letters, digits and '_'")
        if self.instance_pool_id and (self.node_type or self.spot):
            _refuse("instance_pool_id", "a pool has nodes of its own: leave out 'node_type' and 'spot'")
        if self.trigger == "table_update" and self.mode == "continuous":
            _refuse("trigger", "it is for scheduled jobs, and 'mode' is continuous")
        if self.node_type and self.cloud.is_at(self.host):
            _refuse("node_type", self.cloud.node_problem(self.node_type))
        for name in _OF_CLUSTERS if self.serverless else ():
            _refuse(name, "it is for clusters, and tasks run on serverless compute" if getattr(self, name) else None)
        for name in _OF_SERVERLESS if self.compute == "cluster" else ():
            _refuse(name, "it is for serverless compute, and tasks run on clusters" if getattr(self, name) else None)

    def _check_names(self) -> None:
        for name in ("catalog", "schema"):
            fits = re.fullmatch(r"[^./?\s\x00-\x1f]*", getattr(self, name))
            _refuse(name, None if fits else "a name has no dot, slash, question mark or blank")

    def _check_looks(self) -> None:
        _refuse("timezone", timezone_problem(self.timezone) if self.timezone else None)
        for name in _LOOKS:
            _refuse(name, quartz_problem(getattr(self, name)) if getattr(self, name) else None)
        if self.alert_schedule and not self.sql_warehouse:
            _refuse("alert_schedule", "alerts need the variable 'sql_warehouse'")
        for name in _LIMITS_OF_ALERTS:
            if getattr(self, name):
                interval(f"variable {name!r}:", getattr(self, name))
                _refuse(name, None if self.alert_schedule else "alerts need the variable 'alert_schedule'")

    def of_operations(self) -> Deployment:
        """The settings of the job for operations, which ends: on serverless compute unless all is on clusters."""
        if self.compute != "default":
            return self
        empty = {name: _EMPTY[name] for name in _OF_CLUSTERS}
        return replace(self, compute="serverless", **empty)

    @classmethod
    def from_variables(cls, variables: Mapping[str, Any], target: str = "dev") -> Deployment:
        """The deployment to a target that the bundle's variables describe; variables of other names are ignored."""
        settings: dict[str, Any] = {"target": target}
        for name, kind in _TYPES.items():
            if name in variables and name != "target":
                settings[name] = _setting(name, kind, str(variables[name]).strip())
        return cls(**settings)

    @property
    def values_option(self) -> list[str]:
        """The option of tasks that names the file of values."""
        return ["--values", f"${{workspace.file_path}}/{self.folder}/{self.values}"] if self.values else []

    @property
    def folder(self) -> str:
        """The application's folder below the bundle's root."""
        return f"bundles/{self.application}"

    @property
    def serverless(self) -> bool:
        """Whether tasks run on serverless compute."""
        return self.compute == "serverless" or (self.compute == "default" and self.mode == "scheduled")

    @property
    def cloud(self) -> Cloud:
        """The cloud of the workspace."""
        return Cloud.at(self.host)


_TYPES = get_type_hints(Deployment)
_EMPTY: dict[str, Any] = {one.name: one.default for one in fields(Deployment)}


def _setting(name: str, kind: Any, text: str) -> Any:
    """The value of a variable's text, by the type of its field. Raises UsageError if the text is not valid."""
    if kind is int:
        if not text.isdecimal():
            raise UsageError(f"variable {name!r} is {text!r}, expected a number")
        return int(text)
    if kind is bool:
        _one_of(name, text, ("true", "false"))
        return text == "true"
    if get_origin(kind) is tuple:
        listed = tuple(part for part in (part.strip() for part in text.split(",")) if part)
        return listed if kind == tuple[str, ...] else tuple(map(Principal.of, listed))
    if kind is Package:
        return Package.of(text)
    if kind == Principal | None:
        return Principal.of(text) if text else None
    return text


def _one_of(variable: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        problem = NotFoundError.among(f"value for variable {variable!r}:", value, known)
        raise UsageError(str(problem))


def _refuse(variable: str, problem: str | None) -> None:
    if problem is not None:
        raise UsageError(f"variable {variable!r}: {problem}")
