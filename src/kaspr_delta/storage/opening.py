"""The choice of the backend for the tables of a namespace."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from kaspr_delta.storage.layout import SYSTEM
from kaspr_delta.storage.limits import Limits
from kaspr_delta.storage.namespace import FolderNamespace, Namespace
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.system_tables import NativeSystemTables
from kaspr_delta.storage.native.tables import NativeTables
from kaspr_delta.storage.side_by_side import side_by_side
from kaspr_delta.storage.system_tables import RetryTables, SessionSystemTables
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_tables(namespace: Namespace, limits: Limits | None = None) -> Tables:
    """The tables of a namespace: through delta-rs where they lie in a folder, else through Spark."""
    limits = limits or Limits()
    return NativeTables(namespace, limits) if isinstance(namespace, FolderNamespace) else Tables(namespace, limits)


def folder_tables(namespace: Namespace) -> DeltaRs | None:
    """The tables of a namespace without Spark, if they lie in a folder."""
    return DeltaRs(namespace) if isinstance(namespace, FolderNamespace) else None


def opened_system(spark: SparkSession | None, tables: Tables) -> RetryTables:
    """The system's own tables of a namespace. A session creates or registers the schema and those that are missing."""
    if spark is not None:
        tables.create_schema(spark)
        side_by_side([partial(tables.create, spark, table, layout) for table, layout in SYSTEM.items()])
    return tables_of_system(spark, tables)


def tables_of_system(spark: SparkSession | None, tables: Tables) -> RetryTables:
    """The system's own tables of a namespace: in a folder without the session, which a catalog needs."""
    local = folder_tables(tables.namespace)
    return SessionSystemTables(cast("SparkSession", spark), tables) if local is None else NativeSystemTables(local)
