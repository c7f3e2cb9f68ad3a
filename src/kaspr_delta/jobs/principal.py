"""The principals that permissions are granted to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_APPLICATION_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Principal:
    """A user by mail address, a service principal by application id, or a group by name."""

    kind: Literal["user", "group", "service principal"]
    name: str

    @property
    def grantee(self) -> dict[str, str]:
        """The principal as every kind of permission in a bundle names it."""
        return {f"{self.kind.replace(' ', '_')}_name": self.name}

    @classmethod
    def of(cls, text: str) -> Principal:
        """The principal that a text names.

        >>> Principal.of("ann@example.com").kind, Principal.of("data team").kind
        ('user', 'group')
        """
        if "@" in text:
            return cls("user", text)
        return cls("service principal" if _APPLICATION_ID.fullmatch(text) else "group", text)
