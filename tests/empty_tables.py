"""Copies of empty tables: creating one takes most of a second, copying one of the same layout almost nothing."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

from pyspark.sql import SparkSession

from kaspr_delta.storage.folders import LocalFolder
from kaspr_delta.storage.layout import Layout
from kaspr_delta.storage.native.tables import NativeTables

Create = Callable[[NativeTables, "SparkSession", str, Layout], None]


@contextlib.contextmanager
def empty_tables_copied_from(templates: Path) -> Iterator[Create]:
    """Create tables as copies of templates in a folder. Yields the original ``create``.

    The first table of a layout is created, and copied to the templates. Copies share its table id.
    """
    create = NativeTables.create

    def copied(self: NativeTables, spark: SparkSession, table: str, layout: Layout) -> None:
        template = templates / hashlib.sha256(repr(layout).encode()).hexdigest()
        folder = self.namespace.folder(table)
        if not isinstance(folder, LocalFolder) or folder.has_folder("."):
            create(self, spark, table, layout)
        elif template.exists():
            shutil.copytree(template, folder.path)
            create(self, spark, table, layout)
        else:
            create(self, spark, table, layout)
            # Renamed when complete: other threads copy a template as soon as it exists.
            copy = template.with_name(f"{template.name}-{threading.get_ident()}")
            shutil.copytree(folder.path, copy)
            with contextlib.suppress(OSError):  # another thread was faster
                copy.rename(template)

    with mock.patch.object(NativeTables, "create", copied):
        yield create
