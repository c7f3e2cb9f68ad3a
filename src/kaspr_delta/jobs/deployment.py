"""How and where an application is deployed: the bundle's variables, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from kaspr_delta.errors import NotFoundError, UsageError
from kaspr_delta.jobs.quartz import quartz_problem, timezone_problem

Mode = Literal["scheduled", "continuous"]
Compute = Literal["default", "serverless", "cluster"]


@dataclass(frozen=True, slots=True)
class Deployment:
    """One target's settings. Raises UsageError for those that a workspace would refuse or misunderstand.

    ``application`` is a folder name in ``bundles/``. ``schema`` may be empty: then each application has the schema its
    plan names. ``compute`` ``default`` is serverless for scheduled jobs and a job cluster for continuous ones;
    ``spark_version``, ``node_type`` and ``workers`` describe that cluster.
    """

    application: str = "order-system"
    mode: Mode = "scheduled"
    schedule: str = "0 0/15 * * * ?"
    timezone: str = "UTC"
    catalog: str = "main"
    schema: str = ""
    compute: Compute = "default"
    spark_version: str = "17.3.x-scala2.13"
    node_type: str = "i3.xlarge"
    workers: int = 1
    environment_version: str = "4"

    def __post_init__(self) -> None:
        _one_of("mode", self.mode, get_args(Mode))
        _one_of("compute", self.compute, get_args(Compute))
        for name in ("application", "catalog", "spark_version", "node_type", "environment_version"):
            if not getattr(self, name).strip():
                msg = f"variable {name!r} is empty"
                raise UsageError(msg)
        if self.workers < 1:
            msg = f"variable 'workers' is {self.workers}, expected 1 or more"
            raise UsageError(msg)
        if self.mode == "scheduled":
            _refuse("schedule", quartz_problem(self.schedule))
            _refuse("timezone", timezone_problem(self.timezone))

    @classmethod
    def from_variables(cls, variables: Mapping[str, Any]) -> Deployment:
        """The deployment that the bundle's variables describe; those of other names are not for us."""
        wishes = {name: str(variables[name]).strip() for name in cls.__slots__ if name in variables}
        workers = wishes.pop("workers", None)
        if workers is None:
            return cls(**wishes)  # type: ignore[arg-type]  # Literals and numbers are checked when it is made
        if not workers.isdecimal():
            msg = f"variable 'workers' is {workers!r}, expected a number"
            raise UsageError(msg)
        return cls(**wishes, workers=int(workers))  # type: ignore[arg-type]  # as above

    @property
    def folder(self) -> str:
        """The application's folder below the bundle's root."""
        return f"bundles/{self.application}"

    @property
    def serverless(self) -> bool:
        """Whether tasks run on serverless compute."""
        return self.compute == "serverless" or (self.compute == "default" and self.mode == "scheduled")


def _one_of(variable: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        problem = NotFoundError.among(f"value for variable {variable!r}:", value, known)
        raise UsageError(str(problem))


def _refuse(variable: str, problem: str | None) -> None:
    if problem is not None:
        msg = f"variable {variable!r}: {problem}"
        raise UsageError(msg)
