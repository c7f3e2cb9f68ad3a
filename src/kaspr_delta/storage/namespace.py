"""Namespaces: one schema of Delta tables in a folder or in Unity Catalog, with its names and locks."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeAlias
from urllib.parse import unquote, urlsplit

from filelock import FileLock, Timeout

from kaspr_delta.errors import AlreadyRunningError, NotFoundError, UsageError
from kaspr_delta.plan.names import delta_name, is_in_internal_schema
from kaspr_delta.settings import APPLICATION_MARK
from kaspr_delta.spec.ddl import quoted
from kaspr_delta.storage.folders import BucketFolder, Folder, LocalFolder
from kaspr_delta.storage.heartbeat import Lease
from kaspr_delta.storage.layout import BUCKET_CHECKPOINT_INTERVAL, RESOURCES, Layout
from kaspr_delta.storage.stores import STORES, Store, store_of

_STATE_FOLDER = "_kaspr"
# The folder in which Databricks compute mounts the volumes of Unity Catalog.
_VOLUMES = Path("/Volumes")
_UNITY = r"unity://([^./]+)\.([^./]+)/([^?]+)(?:\?internal=([^./&]+))?(?:[?&]location=(.+))?"
_MORE = "?internal=SCHEMA, ?location=URI, or ?internal=SCHEMA&location=URI behind it"
# The beginning of a URI; also of one that was a Path, which has one slash. One letter is a drive of Windows.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_BUCKET = re.compile(r"[a-z0-9]+://[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9._-]+)*/?")
# Seconds between two looks at a lock that another process holds.
_LOOK = 1.0


IsLost: TypeAlias = Callable[[], bool]
"""Whether another process took a lock, or may have taken it."""


@dataclass(frozen=True)
class FolderNamespace:
    """One schema of Delta tables in a folder, with a folder for checkpoints and locks beside them.

    ``name`` is the schema's name in the warehouse, ``registered_as`` that in the catalog of the session.
    """

    root: Any
    name: str
    registered_as: str

    on_databricks: ClassVar[bool] = False
    """Whether Spark is Databricks' own: it has Auto Loader, and Kafka's classes under other names."""

    poll_seconds: ClassVar[float] = 1.0
    """Seconds between two looks at the registry during a run. In a catalog a look is a statement."""

    locks_bind_other_processes: ClassVar[bool] = True
    """Whether ``table_group_lock`` excludes other processes too, not only other threads of this one."""

    streams_go_on: ClassVar[bool] = True
    """Whether Spark can start a stream again from its checkpoint if its tables have no new commits.

    Over catalog-managed tables it cannot: each table of the stream needs a new commit.
    """

    reaches_checkpoints: ClassVar[bool] = True
    """Whether this machine can read and write the folder of the checkpoints."""

    options: ClassVar[dict[str, str] | None] = None
    """The options with which delta-rs opens tables."""

    more_properties: ClassVar[Mapping[str, str]] = {}
    """Properties of each table beside those of its layout."""

    log_store: ClassVar[tuple[str, str] | None] = None
    """A setting, with its value, without which commits of a session would not be atomic between processes."""

    @property
    def home(self) -> Folder:
        """The folder of the schema."""
        raise NotImplementedError

    @property
    def schema(self) -> str:
        """The schema, quoted for SQL. It names its catalog: the current one of a session may be another."""
        return f"spark_catalog.{quoted(self.registered_as)}"

    @property
    def checkpoints(self) -> Folder:
        """The folder of the streaming checkpoints."""
        return self.home / _STATE_FOLDER / "checkpoints"

    internal: ClassVar[str | None] = None
    """The schema of internal tables, quoted, if they have one of their own."""

    def creation(self, schema: str, *, exists: bool) -> Iterator[str]:
        """Statements that create what is missing of a schema, given whether it ``exists``, and beside it."""
        if not exists:
            yield f"CREATE SCHEMA IF NOT EXISTS {schema}"

    def identifier(self, table: str) -> str:
        """The table's name, quoted for SQL. A source table of others may be a name with dots or a path."""
        return _elsewhere(table) or f"{self.schema}.{quoted(table)}"

    @property
    def disk(self) -> Path | None:
        """The folder of the warehouse on this machine, whose disk may be full or read-only; None elsewhere."""
        return None

    def folder(self, table: str) -> Folder | None:
        """The folder of a table; None of one that a catalog knows by a name with dots."""
        if _elsewhere(table):
            return LocalFolder(Path(table)) if table.startswith("/") else None
        return self.home / table

    def properties_of(self, layout: Layout) -> Mapping[str, str]:
        """The properties with which a table is created."""
        return {**layout.folder_properties, **self.more_properties}

    def declared_location(self, table: str) -> str:
        """The ``LOCATION`` with which a table is created."""
        return (self.home / table).for_spark

    def commit_lock(self, table: str) -> contextlib.AbstractContextManager[object]:
        """A lock to hold around every commit to the table."""
        raise NotImplementedError

    def table_group_lock(self, name: str) -> contextlib.AbstractContextManager[object]:
        """A lock to hold while one of several resources that exclude each other processes a batch."""
        raise NotImplementedError

    def resource_lock(self, resource: str) -> contextlib.AbstractContextManager[IsLost]:
        """The lock that a resource holds while it runs.

        It is lost if another process takes it all the same, for example because this machine slept. Raises
        AlreadyRunningError when another process holds the lock, and at the end when another one took it.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class LocalNamespace(FolderNamespace):
    """A folder of this machine.

    Delta's log store on a local disk is not atomic between processes, so every commit takes a kernel file lock, which
    is gone with its holder however that ends.
    """

    root: Path

    @property
    def home(self) -> LocalFolder:
        return LocalFolder(self.root / self.name)

    @property
    def disk(self) -> Path:
        return self.root

    def commit_lock(self, table: str) -> contextlib.AbstractContextManager[object]:
        return FileLock(self._lock(f"commit-{table}"))

    def table_group_lock(self, name: str) -> contextlib.AbstractContextManager[object]:
        return FileLock(self._lock(f"turn-{_as_file(name)}"))

    @contextlib.contextmanager
    def resource_lock(self, resource: str) -> Iterator[IsLost]:
        lock = FileLock(self._lock(f"running-{_as_file(resource)}"), timeout=0)
        try:
            lock.acquire()
        except Timeout:
            msg = f"{resource} already runs on {self.root / self.name} in another process: stop that one first"
            raise AlreadyRunningError(msg) from None
        try:
            yield lambda: False  # a kernel lock is never lost
        finally:
            lock.release()

    def _lock(self, name: str) -> Path:
        folder = self.root / self.name / _STATE_FOLDER / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name}.lock"


@dataclass(frozen=True)
class BucketNamespace(FolderNamespace):
    """A folder of a bucket, by its URI.

    Commits are atomic between processes there: each is a conditional PUT. The locks of commits and of batches keep only
    threads of this process apart.
    """

    root: str

    poll_seconds: ClassVar[float] = 5.0
    more_properties: ClassVar[Mapping[str, str]] = {"delta.checkpointInterval": str(BUCKET_CHECKPOINT_INTERVAL)}
    locks_bind_other_processes: ClassVar[bool] = False

    @property
    def home(self) -> BucketFolder:
        return BucketFolder(f"{self.root}/{self.name}")

    @property
    def options(self) -> dict[str, str] | None:  # type: ignore[override]
        return store_of(self.root).options()

    @property
    def log_store(self) -> tuple[str, str]:  # type: ignore[override]
        return store_of(self.root).log_store

    def commit_lock(self, table: str) -> contextlib.AbstractContextManager[object]:
        return _turns[str(self.home), f"commit {table}"]

    def table_group_lock(self, name: str) -> contextlib.AbstractContextManager[object]:
        return _turns[str(self.home), name]

    @contextlib.contextmanager
    def resource_lock(self, resource: str) -> Iterator[IsLost]:
        folder = self.home / _STATE_FOLDER / "locks"
        with Lease(folder, f"running-{_as_file(resource)}.json", resource, str(self.home)).held() as lease:
            yield lease.is_lost


@dataclass(frozen=True, slots=True)
class UnityNamespace:
    """The same as a schema of Unity Catalog, with a volume for checkpoints. Commits are atomic there.

    The catalog manages the tables, unless they have a ``root`` of their own, a URI: then they are external. A schema
    that the application makes is marked with its name, ``application``, in the form of a schema's name. Tables with
    internals (see ``is_in_internal_schema``) are in the schema ``internal_name``, if there is one.
    """

    catalog: str
    name: str
    volume: str
    root: str | None = None
    application: str = ""
    internal_name: str | None = None

    on_databricks: ClassVar[bool] = True
    poll_seconds: ClassVar[float] = 15.0
    # Two processes may be in two sandboxes, which share no lock that is fast enough for a batch.
    locks_bind_other_processes: ClassVar[bool] = False
    streams_go_on: ClassVar[bool] = False
    disk: ClassVar[Path | None] = None

    @property
    def schema(self) -> str:
        return f"{quoted(self.catalog)}.{quoted(self.name)}"

    @property
    def internal(self) -> str | None:
        return None if self.internal_name is None else f"{quoted(self.catalog)}.{quoted(self.internal_name)}"

    @property
    def checkpoints(self) -> LocalFolder:
        if self.volume.startswith("/"):
            return LocalFolder(Path(self.volume))
        return LocalFolder(_VOLUMES / self.catalog / self.name / self.volume)

    @property
    def reaches_checkpoints(self) -> bool:
        return not self.checkpoints.path.is_relative_to(_VOLUMES) or _VOLUMES.is_dir()

    def creation(self, schema: str, *, exists: bool) -> Iterator[str]:
        comment = f"COMMENT 'Data of the Kaspr application {self.application}'"  # letters, digits and underscores
        if not exists:
            mark = f"'{APPLICATION_MARK}' = '{self.application}'"
            yield f"CREATE SCHEMA IF NOT EXISTS {schema} {comment} WITH DBPROPERTIES ({mark})"
        elsewhere = self.volume.startswith("/") or schema != self.schema
        if not elsewhere and (not exists or (_VOLUMES.is_dir() and not self.checkpoints.path.is_dir())):
            yield f"CREATE VOLUME IF NOT EXISTS {self.schema}.{quoted(self.volume)} {comment}"

    def identifier(self, table: str) -> str:
        schema = self.internal if self.internal is not None and is_in_internal_schema(table) else self.schema
        return _elsewhere(table) or f"{schema}.{quoted(table)}"

    def properties_of(self, layout: Layout) -> Mapping[str, str]:
        return layout.catalog_properties

    def declared_location(self, table: str) -> str | None:
        return None if self.root is None else f"{self.root.rstrip('/')}/{table}"

    def commit_lock(self, table: str) -> contextlib.AbstractContextManager[object]:  # noqa: ARG002
        return contextlib.nullcontext()

    def table_group_lock(self, name: str) -> contextlib.AbstractContextManager[object]:
        return _turns[self.schema, name]

    @contextlib.contextmanager
    def resource_lock(self, resource: str) -> Iterator[IsLost]:
        if not self.reaches_checkpoints:
            msg = (
                f"{resource} cannot run from here: its lock and its checkpoints are in {self.checkpoints}, which only"
                " Databricks compute reaches. Run its job instead: databricks bundle run"
            )
            raise UsageError(msg)
        # Beside the checkpoints, whose folders begin with the kind of a resource and so never with an underscore.
        folder, name = self.checkpoints / "_locks", f"running-{_as_file(resource)}.json"
        with Lease(folder, name, resource, f"{self.catalog}.{self.name}").held() as lease:
            yield lease.is_lost


Namespace: TypeAlias = FolderNamespace | UnityNamespace


def lock_in_time(held: contextlib.ExitStack, namespace: Namespace, resource: str, patience: float) -> IsLost:
    """Hold the lock of a resource, see ``resource_lock``. Raises AlreadyRunningError after ``patience`` seconds."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return held.enter_context(namespace.resource_lock(resource))
        except AlreadyRunningError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_LOOK)


@dataclass(frozen=True, slots=True)
class Warehouse:
    """The location that ``--warehouse`` names: a folder, ``s3://BUCKET/PATH``, or ``unity://CATALOG.SCHEMA/VOLUME``.

    A folder may be a ``file:`` URI; raises UsageError for a URI of an unknown scheme. Behind ``unity://`` may stand
    ``?internal=SCHEMA``, ``?location=URI``, or ``?internal=SCHEMA&location=URI``: tables that hold what only the engine
    reads are in that schema; new tables are external ones, each in a folder of its name there.
    """

    text: str

    def __post_init__(self) -> None:
        scheme = _SCHEME.match(self.text)
        if scheme is None or scheme[1] in {"file", "unity"}:
            return
        if scheme[1] not in STORES:
            expected = "expected a folder, s3://BUCKET/PATH, or unity://CATALOG.SCHEMA/VOLUME"
            # The text is not repeated: somebody may have put credentials into it.
            raise UsageError(f"a warehouse cannot be at {scheme[1]}://, which is unknown: {expected}")
        if _BUCKET.fullmatch(self.text) is None:
            form = f"{scheme[1]}://BUCKET/PATH, of letters, digits and ._-"
            raise UsageError(f"a warehouse in a bucket is named {form}; credentials come from the environment")

    def namespace(self, schema: str) -> Namespace:
        """The namespace of an application whose schema has this name. Raises UsageError for a malformed warehouse."""
        if self.is_here:
            return LocalNamespace(self._root, schema, _claim(self.folder, schema))
        if not self.is_unity:
            return BucketNamespace(self.folder, schema, _claim(self.folder, schema))
        match = re.fullmatch(_UNITY, self.text)
        if match is None:
            msg = f"warehouse {self.text!r}: expected unity://CATALOG.SCHEMA/VOLUME, also with {_MORE}"
            raise UsageError(msg)
        return UnityNamespace(match[1], match[2], match[3], match[5], schema, match[4])

    def scratch(self, name: str) -> Warehouse:
        """A warehouse for throw-away tables: below a folder a folder of this name, in a catalog the same schema."""
        return self if self.is_unity else Warehouse(f"{self.folder}/{name}")

    def schemas(self) -> tuple[str, ...]:
        """The names of the schemas in which an application was started. Raises OSError."""
        if self.is_unity:
            return (self.namespace("").name,)
        marks = (_STATE_FOLDER, RESOURCES)  # a bucket has no folder without files
        return tuple(name for name in sorted(self.root.names()) if any(map((self.root / name).has_folder, marks)))

    def applied_schema(self, app: str | None) -> str:
        """The schema of the application that was applied here. Raises NotFoundError, and UsageError for several."""
        schemas = self.schemas()
        if app is not None:
            if not self.is_unity and delta_name(app) not in schemas:
                raise NotFoundError.among("application", app, schemas)
            return delta_name(app)
        if len(schemas) == 1:
            return schemas[0]
        if not schemas:
            raise self.nothing_applied
        msg = f"{self.text} holds several applications: choose one with --app ({', '.join(schemas)})"
        raise UsageError(msg)

    @property
    def nothing_applied(self) -> NotFoundError:
        """The error that an application has no manifests here."""
        return NotFoundError(
            f"nothing was applied to {self.text} yet: name the manifests, as in `kaspr-delta run PATH`"
        )

    @property
    def is_unity(self) -> bool:
        """Whether the tables are in Unity Catalog."""
        return self.text.startswith("unity:")

    @property
    def is_here(self) -> bool:
        """Whether the tables are in a folder of this machine."""
        return not self.is_unity and self.store is None

    @property
    def store(self) -> Store | None:
        """The store that the bucket is in; None for a folder and a catalog."""
        scheme = _SCHEME.match(self.text)
        return None if scheme is None else STORES.get(scheme[1])

    @property
    def root(self) -> Folder:
        """The folder of the warehouse, here or in its bucket."""
        return LocalFolder(self._root) if self.is_here else BucketFolder(self.folder)

    @property
    def folder(self) -> str:
        """The folder itself, absolute or as a URI, or, of a catalog, that of its volume; empty for a wrong text."""
        if self.is_here:
            return str(self._root)
        if not self.is_unity:
            return f"s3://{self.text.partition('://')[2].rstrip('/')}"
        return str(self.namespace("").checkpoints) if re.fullmatch(_UNITY, self.text) else ""

    @property
    def log_file(self) -> Path | None:
        """The file to which an embedded Spark writes its log. For a bucket it is in the user's folder for caches."""
        if self.is_unity:
            return None
        if self.is_here:
            return self._root / "spark.log"
        caches = os.environ.get("XDG_CACHE_HOME")
        return (Path(caches) if caches else Path.home() / ".cache") / "kaspr-delta" / "spark.log"

    @property
    def _root(self) -> Path:
        if self.text.startswith("file:"):
            return Path(unquote(urlsplit(self.text).path)).absolute()
        return Path(self.text).expanduser().absolute()


# Locks of this process, by schema and name.
_turns: dict[tuple[str, str], threading.RLock] = defaultdict(threading.RLock)

# By schema of the session's catalog the warehouse whose tables it holds, in this process.
_claims: dict[str, str] = {}


def _claim(root: str, name: str) -> str:
    """The schema under which a warehouse's tables are registered: its own name, unless another warehouse has it."""
    if _claims.setdefault(name, root) == root:
        return name
    return f"{name}_{zlib.crc32(root.encode()):08x}"


def _elsewhere(table: str) -> str | None:
    """The SQL name of a table of others: its path, or its name with dots. None for a table of the namespace."""
    if "/" in table:
        return f"delta.{quoted(table)}"
    return ".".join(map(quoted, table.split("."))) if "." in table else None


def _as_file(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", name)
