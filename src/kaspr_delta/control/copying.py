"""The copy of a warehouse with all of its applications to another folder, here or in a bucket."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from kaspr_delta.control.documents import Document
from kaspr_delta.control.registry import Registry
from kaspr_delta.errors import AlreadyRunningError, NotFoundError, UsageError
from kaspr_delta.spec.kinds import short_kind
from kaspr_delta.storage.copying.check import Checked, check_files, check_rows
from kaspr_delta.storage.copying.contents import Contents
from kaspr_delta.storage.copying.mark import MARK, begin, end, refuse_unfinished
from kaspr_delta.storage.copying.transfer import Transfer
from kaspr_delta.storage.namespace import FolderNamespace, IsLost, Warehouse
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.opening import open_tables, tables_of_system
from kaspr_delta.storage.side_by_side import side_by_side


@dataclass(frozen=True, slots=True)
class Amount:
    """How much of a schema is copied: files and bytes, done and all."""

    schema: str
    files: int
    of_files: int
    bytes: int
    of_bytes: int


@dataclass(frozen=True, slots=True)
class Copied:
    """The check of the copy of a schema, and the resources whose manifests name a place in the old warehouse."""

    schema: str
    checked: Checked
    naming: tuple[str, ...]


def copy_warehouse(source: Warehouse, target: Warehouse, report: Callable[[Amount], None]) -> list[Copied]:
    """Copy all applications of a warehouse, with their tables, streams and manifests. A killed copy goes on.

    ``report`` is called after each file. Raises UsageError for other warehouses than folders, for a source within the
    target or the other way round, and for a target with other things in it; NotFoundError for a source without an
    application; AlreadyRunningError for one that runs; and SetupError if the source changes meanwhile.
    """
    _refuse_others(source, target)
    refuse_unfinished(source)
    schemas = source.schemas()
    if not schemas:
        raise NotFoundError(f"there is no application in {source.folder}")
    with contextlib.ExitStack() as held:
        lost = [one for schema in schemas for one in _locked(held, _in_folder(source, schema))]
        begin(target.root, source.folder)
        copied = [_copy(source, target, schema, lost, report) for schema in schemas]
        for name in {*target.root.names()} - {MARK, *schemas}:  # deleted since the copy began
            (target.root / name).remove_all()
        end(target.root)
    return copied


def _copy(
    source: Warehouse, target: Warehouse, schema: str, lost: list[IsLost], report: Callable[[Amount], None]
) -> Copied:
    here, there = _in_folder(source, schema), _in_folder(target, schema)
    contents = Contents.of(here.home)
    files, size = 0, 0

    def count(of_file: int) -> None:
        nonlocal files, size
        files, size = files + 1, size + of_file
        report(Amount(schema, files, len(contents.files), size, contents.bytes))

    Transfer(here.home, there.home, contents, partial(_refuse_lost, lost), count).run()
    check_files(contents, Contents.of(here.home), Contents.of(there.home))
    checked = check_rows(DeltaRs(here), DeltaRs(there), contents)
    naming = tuple(f"{one.kind} {one.name}" for one in _registry(there).documents() if source.folder in one.text)
    return Copied(schema, checked, naming)


def _refuse_others(source: Warehouse, target: Warehouse) -> None:
    for one in (source, target):
        if one.is_unity:
            raise UsageError(f"{one.text} is a catalog: only warehouses in folders, here and in buckets, are copied")
    folders = [f"{one.folder.rstrip('/')}/" for one in (source, target)]
    if folders[0].startswith(folders[1]) or folders[1].startswith(folders[0]):
        raise UsageError(f"{target.folder} and {source.folder} are in each other: name another folder")


def _in_folder(location: Warehouse, schema: str) -> FolderNamespace:
    namespace = location.namespace(schema)
    if not isinstance(namespace, FolderNamespace):
        raise UsageError(f"{location.text} is no folder")
    return namespace


def _registry(namespace: FolderNamespace) -> Registry:
    return Registry(tables_of_system(None, open_tables(namespace)))


def _locked(held: contextlib.ExitStack, namespace: FolderNamespace) -> list[IsLost]:
    """Hold the locks of all resources of a schema. Raises AlreadyRunningError."""
    registry = _registry(namespace)
    documents = registry.documents()
    plan = registry.plan(documents)
    names = _named(documents) if plan is None else [*map(str, plan.runs), *(str(ref) for ref, _ in plan.waiting)]
    locks = [partial(held.enter_context, namespace.resource_lock(name)) for name in dict.fromkeys(names)]
    # A kernel lock belongs to its thread. A lease takes a second, and that of a killed process half a minute.
    first, rest = (locks, []) if namespace.locks_bind_other_processes else (locks[:1], locks[1:])
    return [*(lock() for lock in first), *side_by_side(rest)]


def _named(documents: list[Document]) -> Iterator[str]:
    """The names of all resources, where no plan says which of them run."""
    return (f"{short_kind(one.kind)}/{one.name}" for one in documents)


def _refuse_lost(lost: list[IsLost]) -> None:
    if any(is_lost() for is_lost in lost):
        raise AlreadyRunningError("a resource may run in another process by now: the copy ends, and may be run again")
