"""Kaspr on Delta Lake: tables, agents and foreign-key joins that stay up to date by themselves, on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaspr_delta.errors import (
    AlreadyRunningError,
    KasprError,
    ManifestError,
    NotFoundError,
    NotQuietError,
    ResourceFailedError,
    SerializationError,
    SetupError,
    UsageError,
)
from kaspr_delta.extras import required
from kaspr_delta.version import VERSION

if TYPE_CHECKING:
    from kaspr_delta.application import Application

__all__ = [
    "AlreadyRunningError",
    "Application",
    "KasprError",
    "ManifestError",
    "NotFoundError",
    "NotQuietError",
    "ResourceFailedError",
    "SerializationError",
    "SetupError",
    "UsageError",
]
__version__ = VERSION


def __getattr__(name: str) -> Any:
    """``Application`` brings Spark with it, so it is imported when somebody asks for it.

    Raises SetupError, which says what to install, if there is no Spark.
    """
    if name == "Application":
        with required():
            from kaspr_delta.application import Application
        return Application
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
