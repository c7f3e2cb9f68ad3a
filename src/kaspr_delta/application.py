"""The entry point for Python: open an application, put data in, run it, read the results."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.api.join import JoinHandle, StreamJoinHandle
from kaspr_delta.api.table import TableHandle
from kaspr_delta.api.topic import ChangelogHandle, ChannelHandle, TopicHandle
from kaspr_delta.control.dead_letters import letters_in
from kaspr_delta.control.events import COMPARED, REBUILD_REQUIRED, REBUILT
from kaspr_delta.control.rebuilds import rebuilds_in
from kaspr_delta.control.registry import Registry, documents_of, loaded, without
from kaspr_delta.control.totals import LocalTotals, totals_by_spark
from kaspr_delta.engine.batch.comparison import Comparison
from kaspr_delta.engine.batch.topic_commit import known_topics
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.errors import AlreadyRunningError, NotFoundError, ResourceFailedError, UsageError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import JoinPlan, TableTableJoinPlan
from kaspr_delta.plan.definition.resources import ResourceRef, Serializers, TopicPlan
from kaspr_delta.plan.definition.waiting import in_words, without_waiting
from kaspr_delta.plan.names import topic_table
from kaspr_delta.runtime.applying import only_plan, session_tables, updated
from kaspr_delta.runtime.report import RunReport, Status
from kaspr_delta.runtime.resources import create_tables, create_views, declare_storage, remove_data
from kaspr_delta.runtime.run_events import Listener, Waits, ignore_event
from kaspr_delta.runtime.runner import Runner
from kaspr_delta.runtime.session import databricks_session
from kaspr_delta.runtime.typed_tables import TypedTables, with_stored_results
from kaspr_delta.settings import warehouse_location
from kaspr_delta.spec.durations import interval
from kaspr_delta.spec.kinds import kind_called, short_kind
from kaspr_delta.spec.loader import load_path
from kaspr_delta.spec.values import Values
from kaspr_delta.storage.layout import DEAD_LETTERS, TOPIC, Layout
from kaspr_delta.storage.limits import Limits
from kaspr_delta.storage.namespace import Warehouse, lock_in_time
from kaspr_delta.storage.opening import folder_tables
from kaspr_delta.storage.settled import Settled
from kaspr_delta.storage.system_tables import SessionSystemTables
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from typing_extensions import Self

    from kaspr_delta.web.asgi import WebApplication

# Seconds between two checks of a lock or a registry that should change soon.
_LOOK = 1.0
# Seconds between two looks of a continuous run at the tables for which resources wait.
_LOOK_AGAIN = 10.0
# Seconds to wait until another process releases the lock of a deleted resource.
_PATIENCE = 60.0


class _Stale(NamedTuple):
    """A resource that needs a rebuild: the reason, and the log with its version when that was found."""

    reason: str
    log: str
    version: int


class Application:
    """An application on a warehouse.

    Example::

        with Application.open("bundles/order-system", warehouse="./wh") as app:
            app.topic("raw-orders").produce([{"key": "O1", "value": {"product_id": "P100"}}])
            app.run()
            app.join("orders-products-join").to_dict()
    """

    def __init__(self, spark: SparkSession, delta: Tables, declared: Plan) -> None:
        """Use ``Application.open``. ``declared`` is everything that was applied, ``plan`` the part that can run."""
        self.spark, self.delta = spark, delta
        self.plan = self.declared = declared
        # The plan with the columns of tables of others, from which ``plan`` was made.
        self._looked: Plan | None = None
        # The resources that a continuous run leaves out until they are rebuilt.
        self._stale: dict[ResourceRef, _Stale] = {}

    @classmethod
    def open(  # noqa: PLR0913  each says where to find something
        cls,
        path: str | Path | None = None,
        *,
        warehouse: str | Path | None = None,
        app: str | None = None,
        origin: str = "",
        spark: SparkSession | None = None,
        profile: str | None = None,
        limits: Limits | None = None,
        values: Mapping[str, str | int | float | bool] | None = None,
    ) -> Application:
        """Open an application: apply the manifests of a file or folder, or, without one, use those applied before.

        Resources applied from other files stay. Resources that are no longer in this file or folder are removed. If it
        lies in another place each time, ``origin``, a relative path, says that it is the same.

        ``warehouse`` is a folder, or ``unity://CATALOG.SCHEMA/VOLUME``; by default the environment variable
        ``KASPR_DELTA_WAREHOUSE`` or ``./.kaspr-delta``. ``app`` names the application if there are several.
        ``spark`` is a session, classic or Connect, to use. ``profile`` names a profile of ``~/.databrickscfg``, whose
        compute is used through databricks-connect. ``limits`` are sizes at which the engine changes its method.
        ``values`` are those of the manifests' parameters, before those of their ``values.yaml``.

        Raises ManifestError (with every finding), NotFoundError, UsageError and SetupError.
        """
        location = Warehouse(warehouse_location(None if warehouse is None else str(warehouse)))
        if profile is not None:
            spark = _session_of(profile, location, spark)
        if path is None:
            schema = location.applied_schema(app)
            tables = session_tables(location, schema, spark, limits)
            documents, name = Registry(tables).documents(), app if location.is_unity else schema
        else:
            manifests = load_path(Path(path), origin, Values(values or {}, warehouse=location.folder))
            alone = only_plan(manifests, app)  # before Spark starts: a mistake in YAML should not cost seconds
            tables, name = session_tables(location, alone.schema, spark, limits), alone.application
            new = documents_of(manifests, name, in_place=not origin)
            update = partial(updated, new=new, root=Path(origin) if origin else Path(path).absolute())
            _, documents = Registry(tables).change(update)
        opened = cls(tables.spark, tables.tables, only_plan(loaded(documents), name))
        opened._look(listed=True)
        return opened

    # -- data ---------------------------------------------------------------------------------------------------------

    def topic(self, name: str) -> TopicHandle | ChangelogHandle:
        """A topic by name, or a table's changelog by its topic name. Raises NotFoundError."""
        table = self.plan.changelog(name)
        if table is not None:
            return ChangelogHandle(self.spark, KeyedTable(self.delta, table), self._made_from(table.name))
        plan = self.plan.topic(name) or self._selected_topic(name)
        return TopicHandle(self.spark, self.delta, plan)

    def table(self, name: str) -> TableHandle:
        """A table by name. A table that is made from another resource is read-only. Raises NotFoundError."""
        plan = self.plan.table(name)
        made = self.declared.aggregation(name)
        if plan is None and made is not None and self.delta.exists(self.spark, made.log):
            plan = self.declared.table(name)  # it waits, and its rows are there
        if plan is None:
            raise self._not_found("table", name, [table.name for table in self.plan.tables])
        return TableHandle(self.spark, KeyedTable(self.delta, plan), self._made_from(name))

    def join(self, name: str) -> JoinHandle | StreamJoinHandle:
        """A join's result by the join's name: a table, or, for a join with a stream, the records of its channel.

        Raises NotFoundError.
        """
        plan, application = self._readable(self.plan.join(name), self.declared.join(name))
        if plan is None:
            raise self._not_found("join", name, [join.name for join in self.plan.joins])
        if isinstance(plan, TableTableJoinPlan):
            return JoinHandle(self.spark, self.delta, plan, application)
        return StreamJoinHandle(plan, ChannelHandle(self.spark, self.delta, plan, application))

    def channel(self, name: str) -> ChannelHandle:
        """A join's channel by the channel's name. Raises NotFoundError."""
        plan, application = self._readable(self.plan.channel(name), self.declared.channel(name))
        if plan is None:
            raise NotFoundError.among("channel", name, [join.channel for join in self.plan.joins])
        return ChannelHandle(self.spark, self.delta, plan, application)

    def dead_letters(self, resource: str | None = None) -> list[dict[str, Any]]:
        """The records that could not be processed, with the reasons, oldest first.

        ``resource`` (``kind/name``) restricts them to one resource.
        """
        rows = self.delta.read(self.spark, DEAD_LETTERS)
        if resource is not None:
            rows = rows.where(F.col("resource") == resource)
        return [row.asDict() for row in rows.orderBy("timestamp", "resource", "key").collect()]

    def status(self) -> Status:
        """The state of the resources, and the counters of all runs so far. Only committed batches count."""
        local, query = folder_tables(self.delta.namespace), self._registry.tables.query
        totals = totals_by_spark(query) if local is None else LocalTotals(local).read()
        return Status.of(without_waiting(self.plan, rebuilds_in(self.plan, query)), totals, letters_in(query))

    def sql(self, text: str) -> DataFrame:
        """Run SQL in the application's schema: tables and results by their Delta names, and the views ``v_<name>``.

        A statement that writes to a local warehouse takes no file lock: no other process may commit to the table
        meanwhile.
        """
        self.delta.use(self.spark)
        return self.spark.sql(text)

    def web_application(self, *, token: str = "", behind_proxy: bool = False) -> WebApplication:
        """The web views as an ASGI application, for uvicorn or another server, as `kaspr-delta serve` serves them.

        With a ``token``, every request must carry it. ``behind_proxy``: trust the headers of a proxy. Raises SetupError
        without the packages of the extra ``serve``, and UsageError for tables that are not on this machine.
        """
        from kaspr_delta.web.server import web_application

        return web_application(self.delta.namespace, token=token, behind_proxy=behind_proxy)

    # -- running ------------------------------------------------------------------------------------------------------

    def run(
        self, *, only: Iterable[str] = (), listener: Listener | None = None, stop: threading.Event | None = None
    ) -> RunReport:
        """Run until all resources have caught up, or until ``stop`` is set. Returns a report of each resource.

        When ``stop`` is set, running batches are finished. ``only`` restricts the run to resources named
        ``kind/name``; a task runs, once, if it is named. ``listener`` receives the events of the run
        (``runtime.run_events``), in the threads in which they happen. Raises ResourceFailedError, AlreadyRunningError,
        NotQuietError and NotFoundError.
        """
        self._look_again()
        runner = self._runner(listener)
        try:
            return runner.until_quiet(self._refs(only), stop)
        finally:
            self._tell(runner)

    def run_continuously(
        self,
        stop: threading.Event,
        *,
        every: str = "5s",
        only: Iterable[str] = (),
        listener: Listener | None = None,
    ) -> None:
        """Run until ``stop`` is set, tasks by their schedules. Running batches are finished.

        ``every`` is the least time between two batches of a resource, such as ``500ms`` or ``5s``. Raises like ``run``,
        and UsageError for another text.

        When manifests are applied, changed or deleted meanwhile, the resources restart with the new plan, from where
        they stopped. A resource that fails does not stop the others. One that needs a rebuild, and those that read it,
        wait until that is done or its old definition is applied again.
        """
        pause = interval("every", every)
        names = list(only)
        self._refs(names)
        started: dict[ResourceRef, datetime] = {}
        while not stop.is_set():
            # Before the plan is read: a change between the two must not be missed.
            applied = self._registry.changed(self.delta.namespace.poll_seconds)
            waited = dict(self.plan.waiting)
            self._stale = {ref: one for ref, one in self._stale.items() if not self._is_rebuilt(one)}
            self._reload()
            if waited or self.plan.waiting:
                self.waiting_since()
            for ref, reason in self.plan.waiting:
                if listener is not None and waited.get(ref) != reason:
                    listener(Waits(ref, reason))
            known = [name for name in names if name in self._known]
            if known or not names:
                runner = self._runner(listener)
                # A task that was deleted and applied again starts a new schedule; the others keep theirs.
                started = {task.ref: started[task.ref] for task in self.plan.tasks if task.ref in started}
                runner.started = started
                runner.continuously(stop, pause, self._refs(known), self._changed(runner, applied))
                self._tell(runner)
                for ref, reason in runner.rebuilds.items():
                    log = self.declared.log_of(ref)
                    self._stale[ref] = _Stale(reason, log, self.delta.newest(self.spark, log).version)
            else:  # all resources in ``only`` are deleted
                while not (applied() or stop.wait(_LOOK)):
                    pass
        if self._stale:
            raise ResourceFailedError("\n".join(f"{ref} failed: {one.reason}" for ref, one in self._stale.items()))

    def waiting_since(self) -> dict[str, datetime]:
        """Since when each resource, as ``kind/name``, waits. Events say when that began, and when it ended.

        Those that need a rebuild are left out: they have an event of their own.
        """
        if not self.plan.waiting and self._settled.nothing_waits:
            return {}
        refs = {(kind_called(ref.kind), ref.name): ref for ref, _ in self.plan.waiting if ref not in self._stale}
        self._settled.note_waiting(nothing=False)
        since = self._registry.waiting({id_: in_words(dict(self.plan.waiting)[ref]) for id_, ref in refs.items()})
        self._settled.note_waiting(nothing=not self.plan.waiting)
        return {str(refs[id_]): at for id_, at in since.items()}

    def rebuild(self, resource: str, *, patience: float = 0) -> RunReport:
        """Rebuild the state of a join (``join/NAME``) or of a table that is made from a table (``table/NAME``).

        The state is computed from the current inputs with the current definition. Only results that differ are emitted,
        in one commit. Raises NotFoundError, UsageError for resources without such a state, and AlreadyRunningError if
        another process still runs the resource after ``patience`` seconds.
        """
        return self._runner(None).rebuild(self._rebuildable(resource), patience)

    def compare(self, resource: str, *, patience: float = 0) -> Comparison:
        """Compare the result of a resource with what a rebuild would make of it; the rows that differ are in a table.

        Beside it there is an event; the result and its state stay as they are. Raises like ``rebuild``, and UsageError
        for a join with a stream.
        """
        runner = self._runner(None)
        comparison = runner.compare(self._rebuildable(resource), patience)
        self._tell(runner)
        return comparison

    def _rebuildable(self, resource: str) -> ResourceRef:
        kind, _, name = resource.partition("/")
        (ref,) = self._refs([f"{short_kind(kind_called(kind))}/{name}"])
        self._look_again()
        reason = dict(self.plan.waiting).get(ref)
        if ref.kind not in {"join", "table"} or reason:
            kept = f"{ref} keeps no state that could be rebuilt: only joins and tables that are made from something do"
            raise UsageError(f"{ref} {in_words(reason)}" if reason else kept)
        aggregation = self.plan.aggregation(ref.name) if ref.kind == "table" else None
        if aggregation is not None and not isinstance(aggregation.origin, str):
            raise UsageError(
                f"{ref} is made from a stream, whose old records may be gone: delete it with --purge and apply it again"
            )
        return ref

    def delete(self, kind: str, name: str, *, purge: bool = False) -> None:
        """Remove a resource from the application. Its data stay, and are used again when it is applied again.

        With ``purge`` its data are removed too: the rows of a table, the result, channel and state of a join. Kinds are
        named as with kubectl. A continuous run stops running the resource. Raises NotFoundError. With ``purge``, raises
        AlreadyRunningError if another process still runs the resource after a minute: then its data stay.
        """
        full = kind_called(kind)
        ref = ResourceRef(short_kind(full), name)
        without(self._registry.documents(), full, name)  # raises NotFoundError
        with contextlib.ExitStack() as locks:
            if purge:
                if not self._lock(locks, ref):
                    self._registry.change(lambda before: without(before, full, name))
                    if not self._lock(locks, ref, _PATIENCE):
                        raise AlreadyRunningError(f"{ref} is deleted, and still runs in another process: its data stay")
                # Before the registry forgets it, if possible: after an interruption here it can be deleted again.
                remove_data(self.spark, self.delta, self.declared, ref)
                self._settled.forget()
            self._registry.change(lambda before: [document for document in before if document.id != (full, name)])
        self._reload()

    def close(self) -> None:
        """Do nothing: the Spark session lives as long as the process, and all state is in the warehouse."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- inside -------------------------------------------------------------------------------------------------------

    @property
    def _registry(self) -> Registry:
        return Registry(SessionSystemTables(self.spark, self.delta), self.plan.application)

    @property
    def _settled(self) -> Settled:
        return Settled(self.delta.namespace.checkpoints)

    @property
    def _typed(self) -> TypedTables:
        return TypedTables(self.spark, self.delta)

    def _reload(self) -> None:
        """Make the plan again if manifests or tables of others have changed."""
        declared = self._registry.plan() or self.plan.emptied
        if declared != self.declared:
            self.declared, self._stale = declared, {}
        self._look()

    def _look_again(self) -> None:
        """Make the plan again if tables of others have changed."""
        if self._stale or self._reads_foreign:
            self._stale = {}
            self._look()

    def _look(self, *, listed: bool = False) -> None:
        """Make the plan of what can run. ``listed``: the tables of the schema were just listed."""
        known = self._known_now()
        if known == self._looked:
            return
        if not listed:
            self.delta.create_schema(self.spark)  # lists its tables: another process may have dropped some
        layouts = self._settled.layouts()

        def has(table: str, layout: Layout) -> bool:
            return layouts.get(table) == layout.fingerprint and not self.delta.was_created(table)

        # Also registers existing tables: ``follow`` reads their columns.
        waiting = create_tables(self.spark, self.delta, known, has)
        plan = replace(self._typed, has=has).follow(without_waiting(known, waiting))
        plan, got = declare_storage(self.spark, self.delta, plan, has)
        if got != layouts:
            self._settled.write(got)
        self.plan = without_waiting(plan, create_views(self.spark, self.delta, plan))
        self._looked = known

    def _known_now(self) -> Plan:
        stale = {ref: one.reason for ref, one in self._stale.items()}
        return without_waiting(self._typed.known(self.declared), stale)

    @property
    def _reads_foreign(self) -> bool:
        return any(table.is_foreign for table in self.declared.tables)

    def _waiting_now(self) -> Mapping[ResourceRef, str]:
        """The resources that have to wait with the tables of others as they are now, with the reasons."""
        if not self._reads_foreign:
            return {}
        typed = replace(self._typed, adds=False)
        return dict(typed.follow(typed.known(self.declared)).waiting)

    def _changed(self, runner: Runner, applied: Callable[[], bool]) -> Callable[[], bool]:
        """A function that returns whether a continuous run has to make its plan again.

        Tables of others, and states that need a rebuild, are looked at after a failure, and while something waits.
        """
        looked, failed = time.monotonic(), 0

        def changed() -> bool:
            nonlocal looked, failed
            if applied():
                return True
            late = bool(self.plan.waiting) and time.monotonic() - looked > _LOOK_AGAIN
            if not (late or runner.failed > failed):
                return False
            looked, failed = time.monotonic(), runner.failed
            return any(map(self._is_rebuilt, self._stale.values())) or self._known_now() != self._looked

        return changed

    def _is_rebuilt(self, one: _Stale) -> bool:
        return self.delta.newest(self.spark, one.log).version != one.version

    def _tell(self, runner: Runner) -> None:
        """Append an event for each resource that needs a rebuild, that was compared, or that was rebuilt.

        After a failure the next run asks the catalog about all tables.
        """
        for ref, comparison in runner.compared.items():
            self._registry.note(kind_called(ref.kind), ref.name, COMPARED, comparison)
        for ref, reason in runner.rebuilds.items():
            self._registry.warn(kind_called(ref.kind), ref.name, REBUILD_REQUIRED, reason)
        if runner.failed:  # the next run looks at the tables themselves
            self._settled.forget()
        for ref, reason in runner.rebuilt.items():
            self._registry.note(kind_called(ref.kind), ref.name, REBUILT, f"{reason}: made anew, as onChange says")

    def _lock(self, locks: contextlib.ExitStack, ref: ResourceRef, patience: float = 0) -> bool:
        """Take the lock of a resource. Returns whether it became free in so many seconds."""
        with contextlib.suppress(AlreadyRunningError):
            lock_in_time(locks, self.delta.namespace, str(ref), patience)
            return True
        return False

    @property
    def _known(self) -> dict[str, ResourceRef]:
        """The resources that run or wait, by name."""
        return {str(ref): ref for ref in (*self.plan.runs, *(ref for ref, _ in self.plan.waiting))}

    def _runner(self, listener: Listener | None) -> Runner:
        return Runner(self.spark, self.delta, self.plan, listener or ignore_event, waiting=self._waiting_now)

    def _refs(self, only: Iterable[str]) -> list[ResourceRef]:
        known = self._known
        for name in (wanted := list(only)):
            if name not in known:
                raise NotFoundError.among("resource", name, known)
        return [known[name] for name in wanted]

    def _readable(self, plan: JoinPlan | None, declared: JoinPlan | None) -> tuple[JoinPlan | None, Plan]:
        """A join with the plan by which its results are read. If it waits, they are read as they are stored."""
        if plan is None and declared is not None:
            stored = with_stored_results(self.spark, self.delta, self.declared, declared)
            return (None, self.plan) if stored is None else (stored.join(declared.name), stored)
        return plan, self.plan

    def _not_found(self, kind: str, name: str, known: Iterable[str]) -> UsageError:
        reason = dict(self.plan.waiting).get(ResourceRef(kind, name))
        if reason is not None:
            return UsageError(f"{kind} {name!r} has no rows that can be read: it {in_words(reason)}")
        return NotFoundError.among(kind, name, known)

    def _made_from(self, table: str) -> str | None:
        """The ``kind/name`` that a table is made from, also if the table waits; None if functions write it."""
        made = self.declared.aggregation(table)
        if made is not None:
            return self.declared.origin_of(made)
        return "a resource that does not exist yet" if ResourceRef("table", table) in dict(self.plan.waiting) else None

    def _selected_topic(self, name: str) -> TopicPlan:
        """A topic that only a nameSelector named: it exists once a record was sent to it."""
        made = known_topics(self.delta, self.spark)
        if name not in made:
            raise NotFoundError.among("topic", name, [*(topic.name for topic in self.plan.topics), *made])
        table = topic_table(name)
        self.delta.create(self.spark, table, TOPIC)
        plain = next((topic.serializers for topic in self.plan.topics), Serializers("json", "json"))
        return TopicPlan(name, table, self.plan.default_partitions, plain)


def _session_of(profile: str, location: Warehouse, spark: SparkSession | None) -> SparkSession:
    """The session of a profile. Raises UsageError if it could not reach the warehouse, and SetupError."""
    if spark is not None:
        raise UsageError("either a session or a profile: both were given")
    if not location.is_unity:
        raise UsageError(
            f"Databricks cannot reach {location.text} on this machine: with a profile, name"
            " unity://CATALOG.SCHEMA/VOLUME"
        )
    return databricks_session(profile)
