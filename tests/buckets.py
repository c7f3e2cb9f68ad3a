"""Buckets of this process, for tests that need no server."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaspr_delta.storage.folders import BucketFolder, Folder, LocalFolder

KINDS = ("local", "bucket")
"""The kinds of folders that ``folder_of_kind`` makes."""


def keep_buckets_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """All buckets are one, in memory, until the end of the test. Without obstore the test is skipped."""
    memory = pytest.importorskip("obstore.store").MemoryStore()
    monkeypatch.setattr("kaspr_delta.storage.folders._opened", lambda *_: memory)


def folder_of_kind(kind: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A folder at a path on this machine, or one of the same name in a bucket in memory."""
    if kind == "local":
        return LocalFolder(path)
    keep_buckets_in_memory(monkeypatch)
    return BucketFolder(f"s3://bucket/wh/{path.name}")
