"""The versions of Spark, Delta and Python in use, and whether the tests ran on this combination."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from dataclasses import dataclass

from kaspr_delta.errors import SetupError
from kaspr_delta.settings import OLDEST_ENVIRONMENT, OLDEST_RUNTIME

TRIED = (("4.0", "4.0", "3.12"), ("4.1", "4.3", "3.12"), ("4.2", "4.4", "3.11"), ("4.2", "4.4", "3.12"))
"""The combinations of Spark, Delta and Python on which the tests run, by the first two numbers of each version."""


@dataclass(frozen=True, slots=True)
class Versions:
    """A combination of versions. ``delta`` is None if a Databricks runtime or a server brings its own."""

    spark: str
    delta: str | None
    python: str

    @classmethod
    def with_spark(cls, spark: str) -> Versions:
        """The versions of this process, with the given version of Spark."""
        delta = None if spark_is_elsewhere() else installed("delta-spark")
        return cls(spark, delta, platform.python_version())

    def __str__(self) -> str:
        delta = "" if self.delta is None else f"Delta {self.delta}, "
        return f"Spark {self.spark}, {delta}Python {self.python}"

    @property
    def warning(self) -> str | None:
        """A warning if no test ran on this combination, else None."""
        mine = [None if version is None else _line(version) for version in (self.spark, self.delta, self.python)]
        if any(all(one in {None, other} for one, other in zip(mine, tried, strict=True)) for tried in TRIED):
            return None
        known = "; ".join(f"Spark {spark} with Delta {delta} and Python {python}" for spark, delta, python in TRIED)
        return f"{self} were never tried together. The tests run on {known}"


def spark_is_elsewhere() -> bool:
    """Whether Databricks or a server of Spark Connect gives this process its session."""
    return "DATABRICKS_RUNTIME_VERSION" in os.environ or "SPARK_REMOTE" in os.environ


def refuse_old_databricks() -> None:
    """Raise SetupError on compute of Databricks whose Spark is older than 4.

    A deployment sees neither the version in the file of a ``base_environment`` nor that of a cluster that runs already.
    https://docs.databricks.com/release-notes/serverless/environment-version: there the variable is ``client.4.9``.
    """
    version = os.environ.get("DATABRICKS_RUNTIME_VERSION", "")
    found = re.match(r"(client\.)?(\d+)(?!\d)", version)
    if found is None:
        return
    serverless, number = found.groups()
    if int(number) < (OLDEST_ENVIRONMENT if serverless else OLDEST_RUNTIME):
        raise SetupError(
            f"this is environment version {number} of serverless compute: take {OLDEST_ENVIRONMENT} or newer, in the"
            " bundle's variable environment_version or in the file of its base_environment"
            if serverless
            else f"this is Databricks Runtime {version}: take {OLDEST_RUNTIME} or newer (spark_version)"
        )


def installed(package: str) -> str | None:
    """The version of a package; None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _line(version: str) -> str:
    return ".".join(version.split(".")[:2])
