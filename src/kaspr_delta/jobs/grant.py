"""Privileges on the schema of an application, which its first tasks grant where they are missing.

They are no resource of the bundle: a deployment takes away what others granted, as it makes grants what is listed.
"""

from __future__ import annotations

from dataclasses import dataclass

from kaspr_delta.jobs.deployment import Deployment

READER = ("USE SCHEMA", "SELECT")
OWNER = ("ALL PRIVILEGES", "MANAGE")


@dataclass(frozen=True, slots=True)
class Grant:
    """Privileges of a principal, which may be a reference of the bundle."""

    principal: str
    privileges: tuple[str, ...]

    @property
    def parameter(self) -> str:
        """The grant as ``kaspr-delta run --grant`` takes it."""
        return f"{self.principal}={','.join(self.privileges)}"


def grants_of(deployment: Deployment) -> tuple[Grant, ...]:
    """The grants to the deployment's readers and owners."""
    return (
        *(Grant(reader.name, READER) for reader in deployment.readers),
        *(Grant(owner.name, OWNER) for owner in deployment.owners),
    )
