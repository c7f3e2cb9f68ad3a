"""The one Spark session, and applications on warehouses of their own."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kaspr_delta import Application
from kaspr_delta.storage.layout import Layout
from tests.connect import ON_CONNECT, connect_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]
OrderSystem = Callable[[], Application]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever lies in tests/spark needs the JVM."""
    for item in items:
        if Path(__file__).parent / "spark" in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """The session all tests share; the first test that needs it starts it."""
    from tests.few_rows import session_for_few_rows, without_generated_code

    if ON_CONNECT in os.environ:
        return without_generated_code(connect_session(tmp_path_factory.mktemp("connect")))
    return session_for_few_rows(tmp_path_factory.mktemp("spark") / "spark.log")


@pytest.fixture(autouse=True)
def what_delta_remembers_is_forgotten(request: pytest.FixtureRequest) -> Iterator[None]:
    """Delta remembers tables for an hour: those of all tests together would not fit the driver's memory."""
    yield
    if "spark" in request.fixturenames and ON_CONNECT not in os.environ:
        gc.collect()  # data frames that are garbage hold plans in the JVM
        jvm: Any = request.getfixturevalue("spark")._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@pytest.fixture(autouse=True, scope="session")
def empty_tables_are_copied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """To create a table costs most of a second, to copy an empty one of the same layout nothing.

    Copies have one table id. A test that needs another one asks for ``tables_of_their_own``.
    """
    from kaspr_delta.storage.delta import Delta

    templates = tmp_path_factory.mktemp("tables")
    ensure = Delta.ensure

    def copied(self: Delta, spark: SparkSession, table: str, layout: Layout) -> None:
        location = self.namespace.location(table)
        template = templates / hashlib.sha256(repr(layout).encode()).hexdigest()
        if location is None or location.exists():
            ensure(self, spark, table, layout)
        elif template.exists():
            shutil.copytree(template, location)
            ensure(self, spark, table, layout)
        else:
            ensure(self, spark, table, layout)
            with contextlib.suppress(FileExistsError):  # another thread was faster
                shutil.copytree(location, template)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Delta, "ensure", copied)
        patched.setattr(Delta, "_ensure", ensure, raising=False)
        yield


@pytest.fixture
def tables_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that are created, not copied."""
    from kaspr_delta.storage.delta import Delta

    monkeypatch.setattr(Delta, "ensure", Delta._ensure)  # type: ignore[attr-defined]


@pytest.fixture
def order_system(spark: SparkSession, tmp_path: Path) -> OrderSystem:
    """Open the order-enrichment application on this test's warehouse; again for a restart."""
    return lambda: Application.open(ROOT / "bundles" / "order-system", warehouse=tmp_path / "wh", spark=spark)
