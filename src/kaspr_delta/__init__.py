"""Kaspr on Delta Lake: tables, agents and foreign-key joins that stay up to date by themselves, on Spark."""

from kaspr_delta.application import Application
from kaspr_delta.errors import (
    AlreadyRunningError,
    EnvironmentProblem,
    KasprError,
    ManifestError,
    NotFoundError,
    NotQuietError,
    ResourceFailedError,
    SerializationError,
    UsageError,
)

__all__ = [
    "AlreadyRunningError",
    "Application",
    "EnvironmentProblem",
    "KasprError",
    "ManifestError",
    "NotFoundError",
    "NotQuietError",
    "ResourceFailedError",
    "SerializationError",
    "UsageError",
]
__version__ = "0.1.0"
