"""The registry of applied manifests, stored in the application's schema for later commands."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any

from kaspr_delta.control.events import (
    FAILED,
    NORMAL,
    WARNING,
    Event,
    Resources,
    events_of_change,
    events_of_waiting,
)
from kaspr_delta.errors import ManifestError, NotFoundError, SetupError
from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.spec.kinds import short_kind
from kaspr_delta.spec.loader import LoadedManifest, LoadedManifests, load_text, together
from kaspr_delta.spec.manifest import Manifest
from kaspr_delta.storage.layout import EVENTS, RESOURCES
from kaspr_delta.storage.system_tables import SystemTables

# The layout of an application's tables. Increment it for a change that an older or newer version would misread.
WAREHOUSE_FORMAT = 3
# A failure that goes on gets an event each hour.
_KNOWN_FOR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Document:
    """An applied manifest. ``file`` is the path of its file as given when it was applied.

    ``origin`` is that file as an absolute path or, of manifests with an origin of their own (see ``load_path``), the
    path below that, wherever they lay. ``created`` is the time when it was first applied. ``generation`` counts its
    specs from 1.
    """

    kind: str
    name: str
    origin: str
    file: str
    line: int
    text: str
    created: datetime
    generation: int = 1

    @classmethod
    def of(cls, manifest: LoadedManifest, *, in_place: bool = True) -> Document:
        """The document of a manifest whose file lies where it says (``in_place``), or below an origin."""
        file, line = manifest.location.file, manifest.location.line
        origin = str(Path(file).absolute()) if in_place else file
        name = manifest.manifest.metadata.name
        return cls(manifest.manifest.kind, name, origin, file, line, manifest.text, datetime.now(timezone.utc))

    def load(self) -> LoadedManifests:
        """The manifest, with its location in its file."""
        folder = str(Path(self.origin).parent) if Path(self.origin).is_absolute() else None
        return _loaded_once(self.text, self.file, self.line, folder=folder)

    @property
    def id(self) -> tuple[str, str]:
        """Kind and name, unique in a registry."""
        return self.kind, self.name

    def after(self, before: Document | None) -> Document:
        """The document as the successor of another: same ``created``, and the next generation if the spec differs."""
        if before is None:
            return self
        same = spec_hash(_manifest(self)) == spec_hash(_manifest(before))
        generation = before.generation if same else before.generation + 1
        return replace(self, created=before.created, generation=generation)


@dataclass(frozen=True, slots=True)
class Registry:
    """The applied documents of one application, and the events of its resources.

    Without the name of an ``app`` it is the only one of the documents: a folder has one, a schema of a catalog may
    have several.
    """

    tables: SystemTables
    app: str | None = None

    def documents(self) -> list[Document]:
        """All documents, in the order in which they were applied.

        Raises SetupError if another version of this package stored the application in another format.
        """
        rows = self.tables.rows(RESOURCES)
        found = (rows[0].get("format") or 0) if rows else WAREHOUSE_FORMAT
        if found != WAREHOUSE_FORMAT:
            back = ", or a copy of the warehouse from before it was used" if found > WAREHOUSE_FORMAT else ""
            raise SetupError(
                f"this application is kept in format {found}, and this version of kaspr-delta reads format"
                f" {WAREHOUSE_FORMAT}: use the version that wrote it{back}, or a new warehouse"
            )
        rows.sort(key=lambda row: row["position"])
        return [Document(**{name: row[name] for name in Document.__dataclass_fields__}) for row in rows]

    def plan(self, documents: Iterable[Document] | None = None) -> Plan | None:
        """The plan of the application, with the applied documents or with others; None unless exactly one is of it."""
        plans, _ = build_plans(loaded(self.documents() if documents is None else documents))
        found = [plan for plan in plans if plan.is_of(self.app)]
        return found[0] if len(found) == 1 else None

    def change(self, update: Callable[[list[Document]], list[Document]]) -> tuple[list[Document], list[Document]]:
        """Change the documents and append the resulting events. Returns the documents before and after.

        A lock keeps others from changing them meanwhile. If ``update`` raises, nothing is changed.
        """
        with self.tables.alone(RESOURCES):
            before = self.documents()
            after = update(list(before))
            if after != before:
                rows = [(WAREHOUSE_FORMAT, position, *astuple(document)) for position, document in enumerate(after)]
                self.tables.replace(RESOURCES, rows)
                self._append(events_of_change(manifests(before), manifests(after), datetime.now(timezone.utc)))
        return before, after

    def note(self, kind: str, name: str, reason: str, message: str) -> None:
        """Append an event of a resource."""
        self._append([Event(datetime.now(timezone.utc), NORMAL, reason, kind, name, message)])

    def warn(self, kind: str, name: str, reason: str, message: str) -> None:
        """Append an event of a resource, unless its last one is the same at another time."""
        event = Event(datetime.now(timezone.utc), WARNING, reason, kind, name, message)
        last = self._last_of(kind, name)
        if last is None or replace(last, at=event.at) != event:
            self._append([event])

    def note_failure(self, kind: str, name: str, message: str, worked: datetime | None) -> None:
        """Append the event that a run stopped a resource, with the error.

        It is left out if the last event is the same, less than an hour old, and newer than the last batch, whose time
        ``worked`` is.
        """
        event = Event(datetime.now(timezone.utc), WARNING, FAILED, kind, name, message)
        last = self._last_of(kind, name)
        is_known = last is not None and replace(last, at=event.at) == event and event.at - last.at < _KNOWN_FOR
        if last is None or not is_known or (worked is not None and worked > last.at):
            self._append([event])

    def _last_of(self, kind: str, name: str) -> Event | None:
        of_one = [one for one in self.events() if (one.kind, one.name) == (kind, name)]
        return of_one[-1] if of_one else None

    def note_waiting(self, waits: Mapping[tuple[str, str], str]) -> dict[tuple[str, str], datetime]:
        """Append the events of resources that wait, or no longer wait. Returns since when each one waits.

        ``waits`` has their reasons by kind and name.
        """
        new, since = events_of_waiting(self.events(), waits, datetime.now(timezone.utc))
        self._append(new)
        return since

    def _append(self, events: Sequence[Event]) -> None:
        if events:
            self.tables.append(EVENTS, [astuple(event) for event in events])

    def events(self) -> list[Event]:
        """All events, oldest first."""
        return sorted(Event(**row) for row in self.tables.rows(EVENTS))

    @property
    def version(self) -> int | None:
        """The version of the documents: it differs after each change."""
        return self.tables.version(RESOURCES)

    def changed(self, every: float) -> Callable[[], bool]:
        """A function that returns whether the documents changed since this call.

        It reads the version at most once in ``every`` seconds, and returns False in between.
        """
        known, looked = self.version, time.monotonic()

        def look() -> bool:
            nonlocal looked
            if time.monotonic() - looked < every:
                return False
            looked = time.monotonic()
            return self.version != known

        return look


def documents_of(loaded: LoadedManifests, application: str, *, in_place: bool = True) -> list[Document]:
    """The documents of one application, and those without its label: each later load warns about them."""
    owners = {application, None}
    return [
        Document.of(found, in_place=in_place)
        for found in loaded.manifests
        if (found.manifest.metadata.name if found.manifest.kind == "KasprApp" else found.manifest.metadata.application)
        in owners
    ]


def applied(before: Iterable[Document], new: Iterable[Document], root: Path | None = None) -> list[Document]:
    """The documents after new ones were applied: added, or instead of those with the same kind and name.

    With the ``root`` of the new ones, the absolute path of a file or folder or an origin, documents applied from it
    before are removed if they are not among the new ones. A resource from another file stays, unless it is among the
    new ones.
    """
    old = {document.id: document for document in before}
    fresh = {document.id: document.after(old.get(document.id)) for document in new}
    if root is not None:
        old = {id_: one for id_, one in old.items() if id_ in fresh or not _is_below(one.origin, root)}
    return list((old | fresh).values())


def _is_below(origin: str, root: Path) -> bool:
    """Whether an origin is a root or below it. An origin may also be an absolute path that has the root in it."""
    length, path = len(root.parts), Path(origin)
    return any(parent.parts[-length:] == root.parts for parent in (path, *path.parents))


def without(before: Iterable[Document], kind: str, name: str) -> list[Document]:
    """The documents without a deleted resource. Raises NotFoundError."""
    documents = list(before)
    left = [document for document in documents if document.id != (kind, name)]
    if len(left) == len(documents):
        raise NotFoundError.among(short_kind(kind), name, [other.name for other in documents if other.kind == kind])
    return left


def spec_hash(manifest: Manifest) -> str:
    """A hash of a resource's kind, name, labels and spec: 16 hexadecimal digits."""
    written: dict[str, Any] = {"name": manifest.metadata.name, "labels": dict(sorted(manifest.metadata.labels.items()))}
    text = f"{manifest.kind} {written} {manifest.spec.model_dump_json(by_alias=True)}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def loaded(documents: Iterable[Document]) -> LoadedManifests:
    """Documents as manifests."""
    return together(document.load() for document in documents)


def manifests(documents: Iterable[Document]) -> Resources:
    """The manifests of documents, by kind and name."""
    return {document.id: _manifest(document) for document in documents}


def _manifest(document: Document) -> Manifest:
    """The manifest. Raises ManifestError for one that an older version has applied, and that this one refuses."""
    found = document.load()
    if not found.manifests:
        raise ManifestError(found.findings)
    return found.manifests[0].manifest


# A registry is read again whenever it may have changed, but most of its documents have not.
_loaded_once = lru_cache(maxsize=4096)(load_text)
