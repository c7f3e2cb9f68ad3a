"""Privileges on the schema of an application: a deployment writes them, a run grants those that are missing."""

from __future__ import annotations

from dataclasses import dataclass

from kaspr_delta.errors import UsageError

READER = ("USE SCHEMA", "SELECT")
OWNER = ("ALL PRIVILEGES", "MANAGE")
# https://docs.databricks.com/data-governance/unity-catalog/manage-privileges/privileges.html
PRIVILEGES = frozenset({*READER, *OWNER, "CREATE TABLE", "MODIFY"})


@dataclass(frozen=True, slots=True)
class Grant:
    """Privileges of a principal: a user, a group, or a service principal by its application id.

    In a bundle the principal may be a reference.
    """

    principal: str
    privileges: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Grant:
        """The grant that a text says. Raises UsageError.

        >>> Grant.of("data team=USE SCHEMA,SELECT")
        Grant(principal='data team', privileges=('USE SCHEMA', 'SELECT'))
        """
        principal, _, listed = text.rpartition("=")
        privileges = tuple(privilege.strip() for privilege in listed.split(","))
        if not principal or not PRIVILEGES.issuperset(privileges):
            raise UsageError(f"grant {text!r}: expected PRINCIPAL=PRIVILEGE,… with {', '.join(sorted(PRIVILEGES))}")
        return cls(principal, privileges)

    @property
    def text(self) -> str:
        """The grant as ``kaspr-delta run --grant`` takes it."""
        return f"{self.principal}={','.join(self.privileges)}"
