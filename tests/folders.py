"""Access to the tables of a local folder."""

from __future__ import annotations

from pathlib import Path

from kaspr_delta.storage.namespace import LocalNamespace, Namespace
from kaspr_delta.storage.native.delta_rs import DeltaRs


def delta_rs(namespace: Namespace) -> DeltaRs:
    """The tables of a namespace, by delta-rs without Spark."""
    assert isinstance(namespace, LocalNamespace)
    return DeltaRs(namespace)


def folder_of(namespace: Namespace, table: str) -> Path:
    """The folder of a table."""
    assert isinstance(namespace, LocalNamespace)
    folder = namespace.folder(table)
    assert folder is not None
    return folder
