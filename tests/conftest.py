"""Shared fixtures: the Spark session, warehouses in a catalog, empty tables, the order-enrichment application."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.storage.native.tables import NativeTables
from tests.connect import ON_CONNECT, connect_session
from tests.durations import FileDurations
from tests.empty_tables import Create, empty_tables_copied_from
from tests.unity_catalog import CATALOG, EXTERNAL, ON_UNITY_CATALOG, configure

ROOT = Path(__file__).parents[1]
OrderSystem = Callable[[], Application]
# The second compiler and a parallel collector double the CPU time of a JVM that lives for seconds. The shared session
# lives for minutes, and has a core for them. Without that compiler a JVM has a fifth of the usual space for code, which
# a server of Spark Connect fills.
FOR_SHORT_LIVES = ("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--file-durations`` prints the time of each file, and limits it."""
    parser.addoption("--file-durations", action="store_true", help="print the seconds of each file, and limit them")


def pytest_configure(config: pytest.Config) -> None:
    """Count the time of each file if it is asked for: once, not in the workers of xdist."""
    if config.getoption("--file-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FileDurations())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare garbage collections what was imported: they take a tenth of the time otherwise."""
    gc.disable()
    collected = yield
    gc.freeze()
    gc.enable()
    return collected


def pytest_sessionfinish() -> None:
    """Let all be collected at the end: native libraries complain about objects that are left."""
    gc.unfreeze()


@pytest.hookimpl(optionalhook=True)  # lanes have no xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadscope`` tests on Spark are in one process."""
    if config.getvalue("dist") != "loadscope":
        return None
    from tests.one_process import SparkInOneProcess

    return SparkInOneProcess(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests in tests/spark, which need the JVM, and those in tests/s3, which need a server."""
    for folder, mark in (("spark", pytest.mark.spark), ("s3", pytest.mark.process)):
        for item in items:
            if Path(__file__).parent / folder in item.path.parents:
                item.add_marker(mark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, short_lived_jvms: None) -> Iterator[SparkSession]:  # noqa: ARG001
    """The session that all tests share. The first test that needs it starts it."""
    from tests.few_rows import session_for_few_rows

    if ON_CONNECT in os.environ:
        with connect_session(tmp_path_factory.mktemp("connect")) as session:
            yield session
        return
    folder = tmp_path_factory.mktemp("spark")
    configure(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv(FOR_SHORT_LIVES[0])
        session = session_for_few_rows(folder / "spark.log")
    yield session


@pytest.fixture(autouse=True, scope="session")
def short_lived_jvms() -> Iterator[None]:
    """Set options for the JVMs of processes that tests start."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(*FOR_SHORT_LIVES)
        yield


@pytest.fixture
def catalog(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A warehouse in a catalog: Unity Catalog if tests run on it, otherwise the session catalog."""
    name = CATALOG if ON_UNITY_CATALOG in os.environ else "spark_catalog"
    schema = f"{name}.{tmp_path.name}"
    place = f"?location={(tmp_path / 'tables').as_uri()}" if EXTERNAL in os.environ else ""
    yield f"unity://{schema}/{tmp_path / 'volume'}{place}"
    spark.sql(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@pytest.fixture(autouse=True)
def clear_delta_cache(request: pytest.FixtureRequest) -> Iterator[None]:
    """Clear Delta's cache, which keeps tables for an hour: those of all tests would not fit the driver's memory.

    After a test with tables of its own: tests that share tables find them in the cache.
    """
    yield
    if {"spark", "tmp_path"} <= set(request.fixturenames) and ON_CONNECT not in os.environ:
        gc.collect()  # unreachable data frames hold plans in the JVM
        jvm: Any = request.getfixturevalue("spark")._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@pytest.fixture(autouse=True, scope="session")
def copied_empty_tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Create]:
    """Copy empty tables; the original ``create``. Copies share a table id: see ``tables_with_own_ids``."""
    with empty_tables_copied_from(tmp_path_factory.mktemp("tables")) as create:
        yield create


@pytest.fixture
def tables_with_own_ids(monkeypatch: pytest.MonkeyPatch, copied_empty_tables: Create) -> None:
    """Create tables instead of copying them: each has its own table id."""
    monkeypatch.setattr(NativeTables, "create", copied_empty_tables)


@pytest.fixture
def order_system(spark: SparkSession, tmp_path: Path) -> OrderSystem:
    """A function that opens the order-enrichment application on this test's warehouse; a second call restarts it."""
    return lambda: Application.open(ROOT / "bundles" / "order-system", warehouse=tmp_path / "wh", spark=spark)
