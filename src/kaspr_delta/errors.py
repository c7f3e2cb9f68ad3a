"""The errors of this package, as a tree::

KasprError
├── ManifestError            manifests that cannot run; carries every finding
├── UsageError               a command or call that cannot be answered
│   └── NotFoundError        a name that does not exist
├── SetupError               Java, Spark or the warehouse is not as needed; says how to fix it
│   ├── StoreError           a bucket does not answer or refuses
│   └── DamagedTableError    a commit of a table has no content
├── AlreadyRunningError      the same resource runs in another process
├── RebuildNeededError       a resource cannot go on from its state: `kaspr-delta rebuild` makes a new one
├── SerializationError       a key or value that cannot be written or read
├── ResourceFailedError      a resource stopped; others went on
└── NotQuietError            a loop of resources that feeds itself forever

SparkNeededError, which is none of them, ends a run without Spark; another one goes on.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaspr_delta.spec.diagnostics import Finding


class SparkNeededError(BaseException):
    """Work that was begun without Spark needs it. The text is the reason, as a sentence without its end; or empty.

    It is no Exception: it ends a run, and whatever lets others go on after an error, or takes it for a failed function,
    must not catch it.
    """


class KasprError(Exception):
    """The base class of all errors that this package raises on purpose."""


class ManifestError(KasprError):
    """Manifests that cannot run. ``findings`` holds all of them, not only the first."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(str(finding) for finding in self.findings))


class UsageError(KasprError):
    """A command or call that cannot be answered."""


class NotFoundError(UsageError):
    """A name that does not exist."""

    @classmethod
    def among(cls, kind: str, name: str, available: Iterable[str]) -> NotFoundError:
        """An error that suggests the closest existing name, or lists all existing names."""
        names = sorted(available)
        near = difflib.get_close_matches(name, names, n=1)
        if near:
            hint = f"did you mean {near[0]!r}?"
        elif names:
            hint = f"there are: {', '.join(names)}"
        else:
            hint = f"there is no {kind} yet"
        return cls(f"no {kind} {name!r} ({hint})")


class SetupError(KasprError):
    """The machine lacks something; the message is one sentence that says what to do."""


class DamagedTableError(SetupError):
    """The newest commit of a table has no content. Delta itself does not notice that; the message has the remedy."""


class StoreError(SetupError, OSError):
    """A store of objects does not answer or refuses: the message has the store's reason.

    ``may_pass``: whether it may answer later.
    """

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.may_pass = may_pass


class AlreadyRunningError(KasprError):
    """A resource is started twice on one warehouse."""


class RebuildNeededError(KasprError):
    """A resource cannot go on from its state. Nothing was changed; a rebuild makes a new state.

    ``compared`` says what it would change, if that is known.
    """

    def __init__(self, resource: str, reason: str, compared: str = "") -> None:
        command = f"kaspr-delta rebuild {resource}"
        ways = f"Bring it up to date with: {command}"
        if compared:
            ways = (
                f"Its result stays as it was, compared {compared}. Take the new one with: {command}; or keep the old"
                " one: apply the old definition again"
            )
        super().__init__(f"{resource} cannot go on: {reason}. {ways}")
        self.resource, self.reason = resource, reason

    def after(self, compared: str) -> RebuildNeededError:
        """The same error after a comparison."""
        return RebuildNeededError(self.resource, self.reason, compared)


class SerializationError(KasprError):
    """A key or value that its serializer cannot write or read."""


class ResourceFailedError(KasprError):
    """A resource stopped with an error. Resources that do not need it went on.

    ``may_pass``: whether the same work may go well later, although nobody changes anything.
    """

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.may_pass = may_pass


# Errors of Spark that are the same until somebody grants a privilege.
_REFUSALS = ("INSUFFICIENT_PERMISSIONS", "PERMISSION_DENIED", "UNAUTHORIZED_ACCESS")


def first_line(error: BaseException) -> str:
    """The first line of an error's message, which may have none."""
    return str(error).strip().partition("\n")[0].rstrip()


def may_pass(error: Exception) -> bool:
    """Whether the same work may go well later, although nobody changes anything.

    So it is with errors of storage and of clusters, and where another process runs the resource. It is not with errors
    that say what to do, and with missing privileges.
    """
    if isinstance(error, ResourceFailedError | StoreError):
        return error.may_pass
    if isinstance(error, KasprError):
        return isinstance(error, AlreadyRunningError)
    return not is_refusal(error)


def is_refusal(error: Exception) -> bool:
    """Whether Spark refused something for want of a privilege."""
    return any(refusal in str(error) for refusal in _REFUSALS)


class NotQuietError(KasprError):
    """Resources that feed one another still had rows to process after the greatest number of rounds."""
