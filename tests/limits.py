"""Applications with other limits than the default ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kaspr_delta import Application


def set_limits(app: Application, **limits: Any) -> Application:
    """The application with some other limits (see ``storage.limits.Limits``), from its next run on."""
    tables: Any = app.delta
    app.delta = replace(tables, limits=replace(tables.limits, **limits))
    return app
