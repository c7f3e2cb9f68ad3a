"""Access to the tables of a local folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa

from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.folders import Folder, LocalFolder
from kaspr_delta.storage.layout import Layout
from kaspr_delta.storage.namespace import LocalNamespace, Namespace
from kaspr_delta.storage.native.delta_rs import DeltaRs


def delta_rs(namespace: Namespace) -> DeltaRs:
    """The tables of a namespace, by delta-rs without Spark."""
    assert isinstance(namespace, LocalNamespace)
    return DeltaRs(namespace)


def path_of(folder: Folder) -> Path:
    """The folder as a path of this machine."""
    assert isinstance(folder, LocalFolder)
    return folder.path


def folder_of(namespace: Namespace, table: str) -> Path:
    """The folder of a table."""
    assert isinstance(namespace, LocalNamespace)
    folder = namespace.folder(table)
    assert folder is not None
    return path_of(folder)


def append_rows(delta: DeltaRs, table: str, layout: Layout, *rows: dict[str, Any]) -> None:
    """Append rows to a table of this layout, which is created if it is not there."""
    delta.ensure(table, layout)
    delta.append(table, pa.Table.from_pylist(list(rows), arrow_schema(layout.columns)))


def overwrite(namespace: Namespace, table: str, rows: pa.Table) -> None:
    """Replace the rows of a table without Spark, as another program would."""
    deltalake.write_deltalake(str(folder_of(namespace, table)), rows, mode="overwrite")
