"""Tests on Spark run in one process of xdist, for they share a session; all others run wherever there is room."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

# They begin first, so that the tests without Spark fill the other processes meanwhile.
_ON_SPARK = ("tests/spark/", "tests/properties/")


class SparkInOneProcess(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """A scheduler of xdist. The group marks of xdist 3.8 have no effect under pytest 9.2."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith(_ON_SPARK) else nodeid
