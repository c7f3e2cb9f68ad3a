"""The rights of an identity on objects of a workspace: jobs and SQL warehouses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kaspr_delta.errors import SetupError
from kaspr_delta.workspace.deployed import asking

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient

# https://docs.databricks.com/security/auth/access-control: the levels that include the right.
_LEVELS = {
    "jobs": ("CAN_MANAGE_RUN", "IS_OWNER", "CAN_MANAGE"),
    "warehouses": ("CAN_USE", "CAN_MONITOR", "IS_OWNER", "CAN_MANAGE"),
}


@dataclass(frozen=True, slots=True)
class Right:
    """The right to start a job, or to use a SQL warehouse, by its id."""

    kind: Literal["jobs", "warehouses"]
    id: str

    @property
    def level(self) -> str:
        """The least level that includes it, as people read it."""
        return _LEVELS[self.kind][0].replace("_", " ")

    def check(self, client: WorkspaceClient) -> None:
        """Raise SetupError if neither this identity nor a group of it has the right, or the workspace does not say."""
        with asking():
            me = client.current_user.me()
            entries = client.permissions.get(self.kind, self.id).access_control_list or []
        names = {me.user_name, *(group.display for group in me.groups or [])} - {None}
        held = {
            permission.permission_level.value
            for entry in entries
            if {entry.user_name, entry.group_name, entry.service_principal_name} & names
            for permission in entry.all_permissions or []
            if permission.permission_level is not None
        }
        if not held.intersection(_LEVELS[self.kind]):
            raise SetupError(f"{me.user_name} has {', '.join(sorted(held)) or 'nothing'} on it, not {self.level}")
