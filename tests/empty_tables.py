"""Empty tables that are copied: to create one costs most of a second, to copy one of the same layout nothing."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from kaspr_delta.storage.layout import Layout
from kaspr_delta.storage.native.tables import NativeTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Create = Callable[[NativeTables, "SparkSession", str, Layout], None]


@contextlib.contextmanager
def copied_from(templates: Path) -> Iterator[Create]:
    """Let tables be copied from a folder, which has one of each layout once it was created; the way to create one.

    Copies have one table id.
    """
    create = NativeTables.create

    def copied(self: NativeTables, spark: SparkSession, table: str, layout: Layout) -> None:
        folder = self.namespace.folder(table)
        template = templates / hashlib.sha256(repr(layout).encode()).hexdigest()
        if folder is None or folder.exists():
            create(self, spark, table, layout)
        elif template.exists():
            shutil.copytree(template, folder)
            create(self, spark, table, layout)
        else:
            create(self, spark, table, layout)
            # Whole under its name, for other threads copy it as soon as it is there.
            copy = template.with_name(f"{template.name}-{threading.get_ident()}")
            shutil.copytree(folder, copy)
            with contextlib.suppress(OSError):  # another thread was faster
                copy.rename(template)

    with mock.patch.object(NativeTables, "create", copied):
        yield create
