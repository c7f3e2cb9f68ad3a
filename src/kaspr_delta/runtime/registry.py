"""The manifests applied to a warehouse: kept in the application's schema, so that later commands know them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kaspr_delta.errors import SetupError
from kaspr_delta.spec.loader import LoadedManifest, LoadedManifests, load_text
from kaspr_delta.storage.delta import Delta
from kaspr_delta.storage.layout import RESOURCES, SYSTEM

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# The layout of an application's tables. A change that an older or newer version would misread takes the next number.
WAREHOUSE_FORMAT = 2


@dataclass(frozen=True, slots=True)
class Document:
    """An applied manifest. ``origin`` is the file it came from, ``file`` how that was called when it was applied."""

    kind: str
    name: str
    origin: str
    file: str
    line: int
    text: str

    @classmethod
    def of(cls, manifest: LoadedManifest) -> Document:
        """The document of a manifest that was loaded from a file."""
        file, line = manifest.location.file, manifest.location.line
        name = manifest.manifest.metadata.name
        return cls(manifest.manifest.kind, name, str(Path(file).absolute()), file, line, manifest.text)

    def load(self) -> LoadedManifests:
        """The manifest, with its place in the file it came from."""
        return load_text(self.text, self.file, self.line)


@dataclass(frozen=True, slots=True)
class Registry:
    """The applied documents of one application."""

    delta: Delta

    def documents(self, spark: SparkSession) -> list[Document]:
        """All documents, in the order in which they were applied.

        Raises SetupError for an application that another version of this package keeps in another format.
        """
        table = self.delta.read(spark, RESOURCES)
        if "format" not in table.columns:
            raise _another_format(0)
        rows = table.orderBy("position").drop("position").collect()
        if rows and rows[0]["format"] != WAREHOUSE_FORMAT:
            raise _another_format(rows[0]["format"])
        return [Document(**{name: value for name, value in row.asDict().items() if name != "format"}) for row in rows]

    def replace(self, spark: SparkSession, documents: Iterable[Document]) -> None:
        """Make these the documents of the application."""
        rows = [(WAREHOUSE_FORMAT, position, *astuple(document)) for position, document in enumerate(documents)]
        self.delta.replace(spark.createDataFrame(rows, SYSTEM[RESOURCES].columns).coalesce(1), RESOURCES)


def applied(before: Iterable[Document], path: Path, new: list[Document]) -> list[Document]:
    """What holds after a file or folder was applied.

    It stands for all that was applied from it before: what is no longer in it is gone. A resource that came from
    another file stays, unless the new ones hold it too.
    """
    root = path.absolute()
    names = {(document.kind, document.name) for document in new}
    kept = [
        document
        for document in before
        if not Path(document.origin).is_relative_to(root) and (document.kind, document.name) not in names
    ]
    return [*kept, *new]


def _another_format(found: int) -> SetupError:
    msg = (
        f"this application is kept in format {found}, and this version of kaspr-delta reads format {WAREHOUSE_FORMAT}:"
        " use the version that wrote it, or a new warehouse"
    )
    return SetupError(msg)


def loaded(documents: Iterable[Document]) -> LoadedManifests:
    """Documents as manifests."""
    return sum((document.load() for document in documents), LoadedManifests((), ()))
