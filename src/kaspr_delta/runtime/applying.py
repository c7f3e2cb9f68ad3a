"""Apply manifests to the registry, and report the outcome for each resource."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from kaspr_delta.control.documents import Document, accepted_plans, applied, documents_of, loaded, root_of, taken
from kaspr_delta.control.events import REBUILD_REQUIRED
from kaspr_delta.control.rebuilds import rebuilds_in
from kaspr_delta.control.registry import Registry
from kaspr_delta.control.source_tables import source_findings
from kaspr_delta.errors import ManifestError, UsageError
from kaspr_delta.plan.builder.build import build_plans, named, runnable_plans
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.spec.diagnostics import Finding, has_errors, sorted_findings
from kaspr_delta.spec.kinds import kind_called
from kaspr_delta.spec.loader import LoadedManifests
from kaspr_delta.storage.copying.mark import refuse_unfinished
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.opening import folder_tables, open_tables, opened_system

Change = Literal["created", "configured", "unchanged", "deleted"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome for a resource."""

    application: str
    kind: str
    name: str
    what: Change


def registry_of(warehouse: Warehouse, schema: str, app: str | None = None) -> Registry:
    """The registry of an application. In a folder, here or in a bucket, it does not need Spark.

    Raises SetupError for an unfinished copy of a warehouse.
    """
    refuse_unfinished(warehouse)
    spark = None
    if warehouse.is_unity:
        from kaspr_delta.runtime.session import session_for

        spark = session_for(warehouse)
    return Registry(opened_system(spark, open_tables(warehouse.namespace(schema))), app)


def applied_registry(warehouse: Warehouse, app: str | None) -> Registry:
    """The registry of the only or the named application of a warehouse. Raises NotFoundError and UsageError."""
    return registry_of(warehouse, warehouse.applied_schema(app), app)


def documents_in(manifests: LoadedManifests, app: str | None) -> list[Document]:
    """The documents of the only or the named application. Raises ManifestError, NotFoundError and UsageError."""
    return documents_of(manifests, only_plan(manifests, app).application)


def only_plan(manifests: LoadedManifests, app: str | None) -> Plan:
    """The plan of the only or the named application. Raises ManifestError, NotFoundError and UsageError."""
    return _only(_chosen(runnable_plans(manifests), app))


def only_applied_plan(documents: Iterable[Document], app: str | None) -> Plan:
    """The plan of the only or the named application that was applied. What this version refuses waits.

    Raises ManifestError if it refuses all of it, or its KasprApp, whose settings hold for all; NotFoundError and
    UsageError.
    """
    plans, refused = accepted_plans(documents)
    errors = [finding for one, finding in refused.items() if app in {None, one.application}]
    if errors and not any(plan.is_of(app) for plan in plans):
        raise ManifestError(sorted_findings(dict.fromkeys(errors)))
    return _only(_chosen(plans, app))


def source_warnings(warehouse: Warehouse, plans: Iterable[Plan], manifests: LoadedManifests) -> Iterator[Finding]:
    """Warnings about the tables of others in folders that manifests without errors name. None for a catalog."""
    for plan in () if warehouse.is_unity else plans:
        local = folder_tables(warehouse.namespace(plan.schema))
        if local is not None:
            yield from source_findings(local, plan, manifests.manifests)


def apply_manifests(  # noqa: PLR0913  each says what is applied, or beside what
    warehouse: Warehouse,
    manifests: LoadedManifests,
    *,
    app: str | None = None,
    path: Path | None = None,
    others: LoadedManifests | None = None,
    warn: Callable[[str], None] = lambda _: None,
) -> tuple[list[Outcome], tuple[Finding, ...]]:
    """Add manifests to their applications, or replace those of the same kind and name.

    With a ``path``, resources applied from it before that are not among the manifests are deleted, but for those among
    ``others``, which are applied next. Returns the outcomes and the findings in these files. Raises
    ManifestError for manifests that cannot run, alone or together with those applied before: then nothing of their
    application is changed. Raises NotFoundError and UsageError.

    ``warn`` is called before anything is changed, with a sentence for each resource that will need a rebuild.
    """
    outcomes: list[Outcome] = []
    findings: list[Finding] = []
    for plan in _chosen(runnable_plans(manifests), app):
        new = documents_of(manifests, plan.application)
        registry = registry_of(warehouse, plan.schema, plan.application)
        kept = [] if others is None else [document.id for document in documents_of(others, plan.application)]
        update = partial(updated, new=new, root=None if path is None else root_of(path), others=kept)
        rebuilds = _new_rebuilds(registry, update)
        for reason in rebuilds.values():
            warn(reason)
        before, after = registry.change(update)
        for ref, reason in rebuilds.items():
            registry.warn(kind_called(ref.kind), ref.name, REBUILD_REQUIRED, reason)
        outcomes.extend(_outcomes(plan.application, before, after, {document.id for document in new}))
        files = {document.file for document in new}
        everything = loaded(after)
        plans, found = build_plans(everything)
        found = (*found, *source_warnings(warehouse, plans, everything))
        findings.extend(finding for finding in found if finding.location.file in files)
    return outcomes, sorted_findings(findings)


def _chosen(plans: tuple[Plan, ...], app: str | None) -> tuple[Plan, ...]:
    """The plans of all applications, or of the named one."""
    chosen = named(plans, app)
    if not chosen:
        raise UsageError(
            "there is no application in these manifests: label resources with kaspr.io/app, or add a KasprApp"
        )
    return chosen


def _only(plans: tuple[Plan, ...]) -> Plan:
    plan, *others = plans
    if others:
        names = ", ".join(one.application for one in plans)
        raise UsageError(f"there are several applications: choose one with --app ({names})")
    return plan


def updated(
    before: list[Document], new: list[Document], root: Path | None, others: Collection[tuple[str, str]] = ()
) -> list[Document]:
    """The documents after new ones were applied, see ``applied``.

    Raises ManifestError if they cannot run, and UsageError if some are of another application. A document that this
    version refuses, and that stood there before, stops no new one.
    """
    if others_own := taken(before, new, root):
        raise UsageError("\n".join(_not_yours(document, other) for document, other in others_own))
    after = applied(before, new, root, others)
    if has_errors(build_plans(loaded(after))[1]):
        _, refused = accepted_plans(before)
        runnable_plans(loaded(one for one in after if one not in refused))
    return after


def _not_yours(document: Document, other: Document) -> str:
    delete = f"kaspr-delta delete {other.ref.kind} {other.name} --app {other.application}"
    return (
        f"{document.file}:{document.line}: {document.kind} '{document.name}' of this schema is the application"
        f" {other.application}'s, applied from {other.file}: give this one another name, or {document.application} a"
        f" schema of its own; if it is to move, first run: {delete}"
    )


def _new_rebuilds(registry: Registry, update: Callable[[list[Document]], list[Document]]) -> dict[ResourceRef, str]:
    """The resources that will need a rebuild after a change and do not yet, with the reasons."""
    before = registry.documents()
    now, then = registry.plan(before), registry.plan(update(before))
    needed = {} if now is None else rebuilds_in(now, registry.tables.query)
    needs = {} if then is None else rebuilds_in(then, registry.tables.query)
    return {ref: reason for ref, reason in needs.items() if needed.get(ref) != reason}


def _outcomes(
    application: str, before: list[Document], after: list[Document], named: set[tuple[str, str]]
) -> Iterator[Outcome]:
    old, left = {document.id: document for document in before}, {document.id for document in after}
    for document in after:
        if document.id in named:
            known = old.get(document.id)
            same = known is not None and known.generation == document.generation
            what: Change = "created" if known is None else "unchanged" if same else "configured"
            yield Outcome(application, document.kind, document.name, what)
    for document in before:
        if document.id not in left:
            yield Outcome(application, document.kind, document.name, "deleted")
