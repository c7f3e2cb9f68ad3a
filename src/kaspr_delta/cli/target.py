"""The warehouse and the application that a command is for."""

from __future__ import annotations

from dataclasses import dataclass

import typer

from kaspr_delta.settings import warehouse_location
from kaspr_delta.storage.namespace import Warehouse


@dataclass(frozen=True, slots=True)
class Target:
    """The values of ``--warehouse`` and ``--app``, given after the command's name or before it."""

    warehouse: str | None = None
    app: str | None = None

    @classmethod
    def of(cls, context: typer.Context, warehouse: str | None, app: str | None) -> Target:
        """The target of a command that was given these options behind its name."""
        before = context.obj if isinstance(context.obj, Target) else Target()
        return cls(warehouse or before.warehouse, app or before.app)

    @property
    def location(self) -> Warehouse:
        """The warehouse: named, or that of the environment, or the default."""
        return Warehouse(warehouse_location(self.warehouse))
