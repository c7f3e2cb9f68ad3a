"""Where a deployed application keeps its data: a schema and a volume that belong to no deployment.

A deployment deletes what left its configuration, even if that was never to be destroyed
(https://github.com/databricks/cli/issues/4872). So the bundle has neither of the two: the first task that runs creates
them, and ``kaspr-delta purge`` alone removes them.
"""

from __future__ import annotations

from dataclasses import dataclass

from kaspr_delta.jobs.deployment import Deployment
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.names import delta_name

VOLUME = "kaspr_checkpoints"


@dataclass(frozen=True, slots=True)
class Storage:
    """The schema of an application in one target; if they are set, that of its internal tables, and a folder.

    The folder, ``location``, is that of external tables.
    """

    application: str
    catalog: str
    schema: str
    location: str = ""
    internal: str = ""

    @classmethod
    def of(cls, plan: Plan, deployment: Deployment) -> Storage:
        """The storage of a plan. The copies of two developers differ in their schema and their folder."""
        schema = f"{deployment.schema_prefix}{deployment.schema or plan.schema}"
        if deployment.developer:
            schema = f"dev_{delta_name(deployment.developer)}_{schema}"
        folder = f"{deployment.location.rstrip('/')}/{deployment.catalog}/{schema}/{delta_name(plan.application)}"
        internal = f"{schema}{deployment.internal_suffix}" if deployment.internal_suffix else ""
        return cls(plan.application, deployment.catalog, schema, folder if deployment.location else "", internal)

    @property
    def full_name(self) -> str:
        """The schema as ``catalog.schema``."""
        return f"{self.catalog}.{self.schema}"

    @property
    def full_names(self) -> tuple[str, ...]:
        """All its schemas."""
        return tuple(dict.fromkeys((self.full_name, f"{self.catalog}.{self.of_internal}")))

    @property
    def of_internal(self) -> str:
        """The schema of its internal tables."""
        return self.internal or self.schema

    @property
    def warehouse(self) -> str:
        """The storage in the form in which commands take a warehouse."""
        given = {"internal": self.internal, "location": self.location}
        settings = "&".join(f"{name}={value}" for name, value in given.items() if value)
        return f"unity://{self.full_name}/{VOLUME}{'?' if settings else ''}{settings}"
