"""Applied manifests as documents: how they are made, replaced, removed and read again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from kaspr_delta.control.events import Resources
from kaspr_delta.errors import ManifestError, NotFoundError
from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.spec.diagnostics import Finding, Location, Severity, has_errors
from kaspr_delta.spec.document import read_document
from kaspr_delta.spec.kinds import is_kind, kind_called, short_kind
from kaspr_delta.spec.loader import LoadedManifest, LoadedManifests, load_text, together
from kaspr_delta.spec.manifest import Manifest
from kaspr_delta.spec.resource import APP_LABEL


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
        origin = str(root_of(file)) if in_place else file
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

    @property
    def ref(self) -> ResourceRef:
        """The resource; also one of a kind that only another version knows."""
        return ResourceRef(_short(self.kind), self.name)

    @property
    def data(self) -> dict[str, Any]:
        """The manifest as it was written; empty if it cannot be read as YAML."""
        return _mapping(read_document(self.text, self.file, self.line).data)

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata as they were written."""
        return _mapping(self.data.get("metadata"))

    @property
    def application(self) -> str | None:
        """The name of its application; None without a label."""
        return self.name if self.kind == "KasprApp" else _mapping(self.metadata.get("labels")).get(APP_LABEL)

    def after(self, before: Document | None) -> Document:
        """The document as the successor of another: same ``created``, and the next generation if the spec differs."""
        if before is None:
            return self
        manifest, known = _manifest(self), _manifest(before)
        same = manifest is not None and known is not None and spec_hash(manifest) == spec_hash(known)
        generation = before.generation if same else before.generation + 1
        return replace(self, created=before.created, generation=generation)


def documents_of(loaded: LoadedManifests, application: str, *, in_place: bool = True) -> list[Document]:
    """The documents of one application, and those without its label: each later load warns about them."""
    owners = {application, None}
    return [
        Document.of(found, in_place=in_place)
        for found in loaded.manifests
        if (found.manifest.metadata.name if found.manifest.kind == "KasprApp" else found.manifest.metadata.application)
        in owners
    ]


def applied(
    before: Iterable[Document],
    new: Iterable[Document],
    root: Path | None = None,
    others: Collection[tuple[str, str]] = (),
) -> list[Document]:
    """The documents after new ones were applied: added, or instead of those with the same kind and name.

    With the ``root`` of the new ones, the absolute path of a file or folder or an origin, documents applied from it
    before are removed if they are not among the new ones, nor among ``others``, which are applied next. A resource from
    another file stays, unless it is among the new ones.
    """
    old = {document.id: document for document in before}
    fresh = {document.id: document.after(old.get(document.id)) for document in new}
    if root is not None:
        old = {id_: one for id_, one in old.items() if id_ in fresh or id_ in others or not _is_below(one.origin, root)}
    return list((old | fresh).values())


def taken(
    before: Iterable[Document], new: Iterable[Document], root: Path | None = None
) -> list[tuple[Document, Document]]:
    """The new documents that would take a resource from another application, each with the one that it would replace.

    A resource whose label was changed where it stands, in its file or below the ``root`` of ``applied``, moves.
    """
    old = {document.id: document for document in before}
    pairs = ((document, old[document.id]) for document in new if document.id in old)
    return [
        (document, other)
        for document, other in pairs
        if None not in {document.application, other.application}
        and document.application != other.application
        and document.origin != other.origin
        and (root is None or not _is_below(other.origin, root))
    ]


def root_of(path: str | Path) -> Path:
    """The absolute path of a file or folder of manifests, without ``..``: however it is given, it is one."""
    return Path(os.path.normpath(Path(path).absolute()))


def _is_below(origin: str, root: Path) -> bool:
    """Whether an origin is a root or below it. An origin may also be an absolute path that has the root in it."""
    length, path = len(root.parts), Path(os.path.normpath(origin))  # older versions kept ``..``
    return any(parent.parts[-length:] == root.parts for parent in (path, *path.parents))


def kind_among(documents: Iterable[Document], name: str) -> str:
    """The kind with a name as with kubectl, or one of the documents, of another version. Raises NotFoundError."""
    kinds = {one.kind.lower(): one.kind for one in documents}
    return kinds.get(name.lower()) or kind_called(name)


def without(before: Iterable[Document], kind: str, name: str) -> list[Document]:
    """The documents without a deleted resource. Raises NotFoundError."""
    documents = list(before)
    left = [document for document in documents if document.id != (kind, name)]
    if len(left) == len(documents):
        raise NotFoundError.among(_short(kind), name, [other.name for other in documents if other.kind == kind])
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
    """The manifests of documents, by kind and name, but for those that this version refuses."""
    found = {document.id: _manifest(document) for document in documents}
    return {id_: manifest for id_, manifest in found.items() if manifest is not None}


def _manifest(document: Document) -> Manifest | None:
    """The manifest; None if another version has applied it, and this one refuses it."""
    found = document.load().manifests
    return found[0].manifest if found else None


def accepted_plans(documents: Iterable[Document]) -> tuple[tuple[Plan, ...], dict[Document, Finding]]:
    """The plans of all applications, sorted by name, and the documents that this version refuses, with an error each.

    An older or a newer version has applied these. In the plans they wait, and so does what depends on them. Without its
    KasprApp, whose settings hold for all, an application has no plan. Raises ManifestError for an error that is in none
    of the documents.
    """
    documents = list(documents)
    left, refused = list(documents), dict[Document, Finding]()
    while True:
        read = {document: document.load() for document in left}
        unread = {one: _first_error(one) for one, found in read.items() if not found.manifests}
        everything = together(found for one, found in read.items() if one not in unread)
        plans, findings = build_plans(replace(everything, broken=frozenset(one.id for one in (*refused, *unread))))
        if not unread and not has_errors(findings):
            break
        refused |= unread
        for finding in filter(_is_error, findings):
            refused.setdefault(_holder(left, finding) or _raised(findings), finding)
        left = [document for document in left if document not in refused]
    apps = {one.name: finding for one, finding in refused.items() if one.kind == "KasprApp"}
    for one in documents if apps else ():
        if one.application in apps:
            refused.setdefault(one, apps[one.application])
    return tuple(_with_refused(plan, refused) for plan in plans if plan.application not in apps), refused


def _short(kind: str) -> str:
    return short_kind(kind) if is_kind(kind) else kind.removeprefix("Kaspr").lower()


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_error(finding: Finding) -> bool:
    return finding.severity is Severity.ERROR


def _first_error(document: Document) -> Finding:
    nothing = Finding(Severity.ERROR, Location(document.file, document.line), "this is no manifest")
    return next(filter(_is_error, document.load().findings), nothing)


def _holder(documents: Sequence[Document], finding: Finding) -> Document | None:
    """The document that a finding is in. Of several, whose files have one name, the message names it."""
    at = finding.location
    within = [
        one for one in documents if one.file == at.file and one.line <= at.line <= one.line + one.text.count("\n")
    ]
    names = [one for one in within if f"'{one.name}'" in finding.message or str(one.ref) in finding.message]
    return max(names or within, key=lambda one: one.line, default=None)


def _raised(findings: tuple[Finding, ...]) -> NoReturn:
    raise ManifestError(findings)


def refusal(finding: Finding) -> str:
    """The reason for which a refused document waits."""
    return f"this version refuses its manifest: {finding.location}: {finding.message}"


def _with_refused(plan: Plan, refused: Mapping[Document, Finding]) -> Plan:
    """The plan with its refused resources among those that wait."""
    reasons = {
        one.ref: refusal(finding) for one, finding in refused.items() if one.application in {plan.application, None}
    }
    return replace(plan, waiting=tuple(sorted({**dict(plan.waiting), **reasons}.items()))) if reasons else plan


# A registry is read again whenever it may have changed, but most of its documents have not.
_loaded_once = lru_cache(maxsize=4096)(load_text)
