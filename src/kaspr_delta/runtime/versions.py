"""The versions of Spark, Delta and Python that run together, and whether the tests ever ran on these."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from dataclasses import dataclass

TRIED = (("4.0", "4.0", "3.12"), ("4.1", "4.3", "3.12"), ("4.2", "4.4", "3.11"))
"""Spark, Delta and Python on which the tests run, each by the first two numbers of its version."""


@dataclass(frozen=True, slots=True)
class Versions:
    """What runs together. ``delta`` is None where a Databricks runtime or a server brings its own."""

    spark: str
    delta: str | None
    python: str

    @classmethod
    def with_spark(cls, spark: str) -> Versions:
        """Those of this process, with a Spark that has this version."""
        delta = None if spark_is_elsewhere() else installed("delta-spark")
        return cls(spark, delta, platform.python_version())

    def __str__(self) -> str:
        delta = "" if self.delta is None else f"Delta {self.delta}, "
        return f"Spark {self.spark}, {delta}Python {self.python}"

    @property
    def warning(self) -> str | None:
        """What to know of versions that no test ran on together, None of others."""
        mine = [None if version is None else _line(version) for version in (self.spark, self.delta, self.python)]
        if any(all(one in {None, other} for one, other in zip(mine, tried, strict=True)) for tried in TRIED):
            return None
        known = "; ".join(f"Spark {spark} with Delta {delta} and Python {python}" for spark, delta, python in TRIED)
        return f"{self} were never tried together. The tests run on {known}"


def spark_is_elsewhere() -> bool:
    """Whether Databricks or a server of Spark Connect gives this process its session."""
    return "DATABRICKS_RUNTIME_VERSION" in os.environ or "SPARK_REMOTE" in os.environ


def installed(package: str) -> str | None:
    """The version of a package; None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _line(version: str) -> str:
    return ".".join(version.split(".")[:2])
