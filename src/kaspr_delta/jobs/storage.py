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
    """The schema of an application in one target, and the folder of its external tables, if it has any."""

    application: str
    catalog: str
    schema: str
    location: str = ""

    @classmethod
    def of(cls, plan: Plan, deployment: Deployment) -> Storage:
        """The storage of a plan. The copies of two developers differ in their schema and their folder."""
        schema = deployment.schema or plan.schema
        if deployment.developer:
            schema = f"dev_{delta_name(deployment.developer)}_{schema}"
        folder = f"{deployment.location.rstrip('/')}/{deployment.catalog}/{schema}/{delta_name(plan.application)}"
        return cls(plan.application, deployment.catalog, schema, folder if deployment.location else "")

    @property
    def full_name(self) -> str:
        """The schema as ``catalog.schema``."""
        return f"{self.catalog}.{self.schema}"

    @property
    def warehouse(self) -> str:
        """The storage in the form in which commands take a warehouse."""
        location = f"?location={self.location}" if self.location else ""
        return f"unity://{self.full_name}/{VOLUME}{location}"
