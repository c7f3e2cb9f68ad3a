"""The rights of identities on objects of a workspace, such as jobs, SQL warehouses and Apps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kaspr_delta.errors import SetupError
from kaspr_delta.workspace.deployed import asking

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.service.iam import AccessControlResponse
    from typing_extensions import Self

# https://docs.databricks.com/security/auth/access-control: the levels that include the right.
_LEVELS = {
    "jobs": ("CAN_MANAGE_RUN", "IS_OWNER", "CAN_MANAGE"),
    "warehouses": ("CAN_USE", "CAN_MONITOR", "IS_OWNER", "CAN_MANAGE"),
}


# The group of all users of a workspace, and that of the account.
_EVERYBODY = ("users", "account users")


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
        held = _held(self._entries(client), {me.user_name, *(group.display for group in me.groups or [])} - {None})
        if not held.intersection(_LEVELS[self.kind]):
            raise SetupError(f"{me.user_name} has {', '.join(sorted(held)) or 'nothing'} on it, not {self.level}")

    def missing(self, client: WorkspaceClient, principals: Iterable[str]) -> list[str]:
        """The right of each principal that has not got it, in words, unless everybody has.

        Raises SetupError if the workspace does not say.
        """
        entries = self._entries(client)
        if _held(entries, _EVERYBODY).intersection(_LEVELS[self.kind]):
            return []
        without = (one for one in principals if not _held(entries, {one}).intersection(_LEVELS[self.kind]))
        kind = "job" if self.kind == "jobs" else "SQL warehouse"
        return [f"{self.level} of {one} on the {kind}" for one in without]

    def _entries(self, client: WorkspaceClient) -> Sequence[AccessControlResponse]:
        with asking():
            return client.permissions.get(self.kind, self.id).access_control_list or []


@dataclass(frozen=True, slots=True)
class Given:
    """A permission that somebody gave on an object of the workspace: ``kind`` and ``id`` as in its address."""

    kind: str
    id: str
    principal: tuple[str, str]
    level: str

    @classmethod
    def of(cls, kind: str, id_: str, entry: Mapping[str, str]) -> Self:
        """The permission in an entry of the CLI: a level, and a name whose key says of what kind the principal is."""
        ((key, name),) = ((key, name) for key, name in entry.items() if key.endswith("_name"))
        return cls(kind, id_, (key, name), entry["level"])

    def __str__(self) -> str:
        return f"{self.level.replace('_', ' ')} of {self.principal[1]} on {self.kind}/{self.id}"

    def give_back(self, client: WorkspaceClient) -> None:
        """Add it to the permissions of the object. Raises SetupError."""
        from databricks.sdk.service.iam import AccessControlRequest

        request = AccessControlRequest.from_dict({self.principal[0]: self.principal[1], "permission_level": self.level})
        with asking():
            client.permissions.update(self.kind, self.id, access_control_list=[request])


def given_on(client: WorkspaceClient, kind: str, id_: str) -> list[Given]:
    """The permissions on an object that belong to it alone, without that of its owner. Raises SetupError."""
    with asking():
        entries = client.permissions.get(kind, id_).access_control_list or []
    found = list[Given]()
    for entry in entries:
        names = {f"{of}_name": getattr(entry, f"{of}_name") for of in ("user", "group", "service_principal")}
        for one in entry.all_permissions or []:
            level = None if one.permission_level is None else one.permission_level.value
            if level not in {None, "IS_OWNER"} and not one.inherited:
                found += [Given(kind, id_, (key, name), str(level)) for key, name in names.items() if name]
    return found


def unseen_jobs(client: WorkspaceClient, ids: Iterable[str]) -> list[str]:
    """The jobs, by their ids, that the workspace does not show to this identity. Raises SetupError for other errors."""
    from databricks.sdk.errors import NotFound, PermissionDenied

    unseen = list[str]()
    for one in ids:
        try:
            with asking():
                client.jobs.get(int(one))
        except SetupError as error:
            if not isinstance(error.__cause__, NotFound | PermissionDenied):
                raise
            unseen.append(one)
    return unseen


def _held(entries: Iterable[AccessControlResponse], names: Collection[str | None]) -> set[str]:
    """The levels that one of these names has by the entries of an object."""
    return {
        permission.permission_level.value
        for entry in entries
        if {entry.user_name, entry.group_name, entry.service_principal_name}.intersection(names)
        for permission in entry.all_permissions or []
        if permission.permission_level is not None
    }
