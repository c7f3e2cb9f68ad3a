"""The entry point for Python: open an application, put data in, run it, read the results.

Commands open an application of a folder in tenths of a second. A method imports what it alone needs.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from kaspr_delta.control import health
from kaspr_delta.control.documents import Document, documents_of, kind_among, root_of, without
from kaspr_delta.control.events import COMPARED, OTHER_DEPLOYMENT, REBUILD_REQUIRED, REBUILT, Event, since_in
from kaspr_delta.control.registry import Registry
from kaspr_delta.control.stored_tables import stored_misfits
from kaspr_delta.errors import (
    AlreadyRunningError,
    NotFoundError,
    ResourceFailedError,
    SparkNeededError,
    UsageError,
)
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import JoinPlan, TableTableJoinPlan
from kaspr_delta.plan.definition.resources import ResourceRef, TablePlan, TopicPlan
from kaspr_delta.plan.definition.waiting import in_words, without_waiting
from kaspr_delta.plan.names import topic_table
from kaspr_delta.runtime.applying import only_applied_plan, only_plan, updated
from kaspr_delta.runtime.failures import made_to_wait
from kaspr_delta.runtime.session import databricks_session, session_for
from kaspr_delta.runtime.typed_tables import TypedTables, with_stored_results
from kaspr_delta.settings import warehouse_location
from kaspr_delta.spec.ddl import Column
from kaspr_delta.spec.durations import interval
from kaspr_delta.spec.kinds import event_kind, kind_called, short_kind
from kaspr_delta.spec.loader import load_path
from kaspr_delta.spec.revision import revision_of
from kaspr_delta.spec.values import Value, Values
from kaspr_delta.storage.copying.mark import refuse_unfinished
from kaspr_delta.storage.layout import DEAD_LETTERS, TOPIC, Layout
from kaspr_delta.storage.lazy_session import because, is_running, lazy_session, session_of, without_spark
from kaspr_delta.storage.limits import Limits
from kaspr_delta.storage.namespace import Warehouse, lock_in_time
from kaspr_delta.storage.opening import folder_tables, open_tables, opened_system, tables_of_system
from kaspr_delta.storage.plan_tables import Settles, tables_of
from kaspr_delta.storage.settled import Settled
from kaspr_delta.storage.stored_results import Replacement, problems_of, result_layout_of, results_to_replace
from kaspr_delta.storage.system_tables import RetryTables, known_topics
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Self

    from kaspr_delta.api.explanation import Explanation
    from kaspr_delta.api.join import JoinHandle, StreamJoinHandle
    from kaspr_delta.api.table import TableHandle
    from kaspr_delta.api.topic import ChangelogHandle, ChannelHandle, TopicHandle
    from kaspr_delta.control.retry import RetryableDeadLetters
    from kaspr_delta.control.store import FolderStore, SessionStore
    from kaspr_delta.engine.batch.comparison import Comparison
    from kaspr_delta.engine.rows.driver_table import DriverTable
    from kaspr_delta.runtime.report import RunReport, Status
    from kaspr_delta.runtime.run_events import Listener
    from kaspr_delta.runtime.runner import Runner
    from kaspr_delta.web.asgi import WebApplication

Starting = Callable[[Callable[[], "SparkSession"], str], "SparkSession"]
"""Calls the function that starts Spark, and returns its session; the text says why, and may be empty."""

_log = logging.getLogger(__name__)

# Seconds between two checks of a lock or a registry that should change soon.
_LOOK = 1.0
# Seconds between two looks of a continuous run at the tables for which resources wait, and after failures.
_LOOK_AGAIN, _LOOK_AFTER_FAILURE = 10.0, 300.0
# Seconds until a failure that goes on gets another event, and until an event is tried again that was not written.
_NOTE_AGAIN, _TRY_TO_NOTE = 3_600.0, 60.0
_OF_ANOTHER_DEPLOYMENT = (
    "{} does not hold the manifests with which this run was deployed: those that were applied before are used. That is"
    " right after another deployment; if each run says so, .gitignore or sync.exclude keeps a file back"
)
# Seconds to wait until another process releases the lock of a deleted resource.
_PATIENCE = 60.0


class _Stale(NamedTuple):
    """A resource that needs a rebuild: the reason, and the log with its version when that was found."""

    reason: str
    log: str
    version: int


Update = Callable[[list[Document]], list[Document]]


def _with(documents: list[Document], own: Update | None) -> tuple[list[Document], Update | None]:
    """The documents that were applied with those of one's own, and whatever puts these there while they are missing."""
    after = documents if own is None else own(documents)
    return after, None if after == documents else own


def _among(layouts: Mapping[str, str]) -> Settles:
    """Whether a table has got a layout, by the fingerprints that were kept."""
    return lambda table, layout: layouts.get(table) == layout.fingerprint


Report = TypeVar("Report", bound="RunReport | None")


class Application:
    """An application on a warehouse.

    Example::

        with Application.open("bundles/order-system", warehouse="./wh") as app:
            app.topic("raw-orders").produce([{"key": "O1", "value": {"product_id": "P100"}}])
            app.run()
            app.join("orders-products-join").to_dict()

    A notebook shows ``app.plan`` as a picture of all resources.
    """

    def __init__(
        self,
        spark: SparkSession | Callable[[str], SparkSession],
        delta: Tables,
        declared: Plan,
        *,
        bound: bool = True,
    ) -> None:
        """Use ``Application.open``. ``declared`` is everything that was applied, ``plan`` the part that can run.

        ``spark`` is a session, or starts one for a reason.
        """
        self._spark = lazy_session(spark, self._prepare) if callable(spark) else spark
        self.delta = delta
        self._bound = bound
        self.plan = self.declared = declared if bound else declared.unbound
        # The plan with the columns of tables of others, from which ``plan`` was made.
        self._refreshed: Plan | None = None
        # The resources that a continuous run leaves out until they are rebuilt.
        self._stale: dict[ResourceRef, _Stale] = {}
        # Puts manifests that are not applied in the place of those that are.
        self._own: Update | None = None
        # Whether manifests changed when it was opened.
        self._has_changed = False
        # The columns of tables at which an earlier run looked: they count until a run has something to do. None: it
        # does not trust them.
        self._trusted_columns: dict[str, tuple[Column, ...]] | None = None
        # Those of the last look.
        self._seen_columns: dict[str, tuple[Column, ...]] = {}

    @classmethod
    def open(  # noqa: PLR0913  each says where to find something
        cls,
        path: str | Path | None = None,
        *,
        warehouse: str | Path | None = None,
        app: str | None = None,
        origin: str = "",
        revision: str = "",
        apply: bool = True,
        spark: SparkSession | None = None,
        profile: str | None = None,
        limits: Limits | None = None,
        values: Mapping[str, Value] | None = None,
        bound: bool = True,
        starting: Starting | None = None,
        trusting: bool = False,
    ) -> Application:
        """Open an application: apply the manifests of a file or folder, or, without one, use those applied before.

        Resources applied from other files stay. Resources that are no longer in this file or folder are removed. If it
        lies in another place each time, ``origin``, a relative path, says that it is the same. With a ``revision`` (see
        ``revision_of``) a folder of another one, deployed since, is left alone: what was applied before is used. With
        ``apply=False`` the manifests are used by this object only, unless they are the application's first ones. It
        makes tables that are missing, and changes no other one.

        ``warehouse`` is a folder, ``s3://BUCKET/PATH``, or ``unity://CATALOG.SCHEMA/VOLUME``; by default the
        environment variable ``KASPR_DELTA_WAREHOUSE`` or ``./.kaspr-delta``. ``app`` names the application if there are
        several. ``spark`` is a session, classic or Connect, to use; by default, over a folder, one starts when
        something needs it. ``starting`` calls what starts it. ``profile`` names a profile of ``~/.databrickscfg``,
        whose compute is used through databricks-connect. ``limits`` are sizes at which the engine changes its method.
        ``values`` are those of the manifests' parameters, before those of their ``values.yaml``. Unless ``bound``,
        topics are not read from Kafka and files, nor written there. In a catalog, ``trusting`` takes tables of others
        as an earlier run saw them: ``run`` looks at them again before it reads them.

        Raises ManifestError (with every finding), NotFoundError, UsageError and SetupError.
        """
        location = Warehouse(warehouse_location(None if warehouse is None else str(warehouse)))
        refuse_unfinished(location)
        if profile is not None:
            spark = _session_of(profile, location, spark)
        chosen = Values(values or {}, warehouse=location.folder)
        manifests = None if path is None else load_path(Path(path), origin, chosen)
        # Only now: a deployment puts other files there, and does not bring those back that were read.
        other = ""
        if path is not None and revision and revision_of(Path(path), chosen.given) != revision:
            other, manifests = _OF_ANOTHER_DEPLOYMENT.format(origin or path), None
            _log.warning("%s", other)
        if manifests is None or path is None:
            schema, new = location.applied_schema(app), None
            name = app if location.is_unity else schema
        else:
            alone = only_plan(manifests, app)  # before Spark starts: a mistake in YAML should not cost seconds
            schema, name = alone.schema, alone.application
            new = documents_of(manifests, name, in_place=not origin)
        delta = open_tables(location.namespace(schema), limits)

        def start(reason: str = "") -> SparkSession:
            begin = partial(session_for, location)
            return begin() if starting is None else starting(begin, reason)

        if spark is None and location.is_unity:
            spark = start()
        registry = Registry(opened_system(spark, delta))
        own: Update | None = None
        has_changed = False
        if new is None or path is None:
            documents = registry.documents()
        else:
            own = partial(updated, new=new, root=Path(origin) if origin else root_of(path))
            documents = [] if apply else registry.documents()
            if any(one.application == name for one in documents):
                documents, own = _with(documents, own)
            else:
                before, documents = registry.change(own)
                own, has_changed = None, before != documents
        if not documents:
            raise NotFoundError(f"{other}. Nothing was") if other else location.nothing_applied
        opened = cls(spark or start, delta, only_applied_plan(documents, name), bound=bound)
        opened._own = own
        opened._has_changed = has_changed
        trusts = trusting and not has_changed and location.is_unity
        opened._trusted_columns = opened._settled.columns() if trusts else None
        if other:
            opened._registry.warn("KasprApp", opened.plan.application, OTHER_DEPLOYMENT, other)
        opened._refresh(listed=spark is not None)
        return opened

    # -- data ---------------------------------------------------------------------------------------------------------

    def topic(self, name: str) -> TopicHandle | ChangelogHandle:
        """A topic by name, or a table's changelog by its topic name. Raises NotFoundError."""
        from kaspr_delta.api.topic import ChangelogHandle, TopicHandle

        table = self.plan.changelog(name)
        if table is not None:
            return ChangelogHandle(self._driver_table(table), self._made_from(table.name))
        plan = self.plan.topic(name) or self._selected_topic(name)
        return TopicHandle(self._spark, self.delta, plan, self._layout(plan.delta_name) or TOPIC)

    def table(self, name: str) -> TableHandle:
        """A table by name. A table that is made from another resource is read-only. Raises NotFoundError."""
        from kaspr_delta.api.table import TableHandle

        plan = self.plan.table(name)
        made = self.declared.aggregation(name)
        if plan is None and made is not None and self.delta.exists(self._spark, made.log):
            plan = self.declared.table(name)  # it waits, and its rows are there
            local = folder_tables(self.delta.namespace)
            if local is not None and ResourceRef("table", name) in stored_misfits(local, self.declared):
                plan = None
        if plan is None:
            raise self._not_found("table", name, [table.name for table in self.plan.tables])
        return TableHandle(self._driver_table(plan), self._made_from(name))

    def join(self, name: str) -> JoinHandle | StreamJoinHandle:
        """A join's result by the join's name: a table, or, for a join with a stream, the records of its channel.

        Raises NotFoundError.
        """
        from kaspr_delta.api.join import JoinHandle, StreamJoinHandle
        from kaspr_delta.api.topic import ChannelHandle

        plan, application = self._readable(self.plan.join(name), self.declared.join(name))
        if plan is None:
            raise self._not_found("join", name, [join.name for join in self.plan.joins])
        if isinstance(plan, TableTableJoinPlan):
            return JoinHandle(self._spark, self.delta, plan, application)
        return StreamJoinHandle(plan, ChannelHandle(self._spark, self.delta, plan, application))

    def explain(self, key: Any, join: str | None = None) -> Explanation:
        """Why the result of a join of tables for a key is as it is, see ``JoinHandle.explain``.

        ``join`` names it where there are several. Raises NotFoundError and UsageError.
        """
        names = [one.name for one in self.plan.joins if isinstance(one, TableTableJoinPlan)]
        if join is None and len(names) != 1:
            raise UsageError(f"name the join whose result is to be explained: {', '.join(names) or 'there is none'}")
        return self.join(join or names[0]).explain(key)

    def channel(self, name: str) -> ChannelHandle:
        """A join's channel by the channel's name. Raises NotFoundError."""
        from kaspr_delta.api.topic import ChannelHandle

        plan, application = self._readable(self.plan.channel(name), self.declared.channel(name))
        if plan is None:
            raise NotFoundError.among("channel", name, [join.channel for join in self.plan.joins])
        return ChannelHandle(self._spark, self.delta, plan, application)

    def dead_letters(self, resource: str | None = None) -> list[dict[str, Any]]:
        """The records that could not be processed, with the reasons, oldest first.

        ``resource`` (``kind/name``) restricts them to one resource.
        """
        system = self._system
        condition = "true" if resource is None else f"resource = {system.value(resource)}"
        order = ", ".join(f"{column} ASC NULLS FIRST" for column in ("timestamp", "resource", "key"))
        return system.rows(DEAD_LETTERS, f"WHERE {condition} ORDER BY {order}")

    def status(self) -> Status:
        """The state of the resources, and the counters of all runs so far. Only committed batches count."""
        from kaspr_delta.control.dead_letters import letters_in
        from kaspr_delta.runtime.report import Status

        store = self._store
        plan = without_waiting(self.plan, store.rebuilds(self.plan))
        return Status.of(plan, store.done(), letters_in(store.system.query))

    def rebuilds(self) -> Mapping[ResourceRef, str]:
        """The resources that cannot go on from their states, with the reasons, which name the remedies."""
        return self._store.rebuilds(self.plan)

    def function(
        self, resource: str, name: str | None = None, context: Mapping[str, Any] | None = None
    ) -> Callable[..., Any]:
        """A function of a manifest, to call it with the arguments of one's choice; see ``api.functions``.

        ``app.function("agent/bill", "enrich")`` is an operation of an agent, task or web view, and
        ``app.function("join/of-customers")`` a join's extractor. Raises NotFoundError.
        """
        from kaspr_delta.api.functions import function_of

        return function_of(self.declared, resource, name, context or {})

    def letters(self) -> RetryableDeadLetters:
        """The dead letters, to retry them."""
        return self._store.letters(self.plan)

    def sql(self, text: str) -> DataFrame:
        """Run SQL in the application's schema: tables and results by their Delta names, and the views ``v_<name>``.

        A statement that writes to a local warehouse takes no file lock: no other process may commit to the table
        meanwhile.
        """
        because(self._spark, "it runs SQL")
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
        from kaspr_delta.telemetry import observed

        names = list(only)
        self.check(names)
        before: Runner | None = None
        if self._begins_here():
            with observed(self.plan, listener, is_test=not self._bound) as observer:
                before = self._runner_here(observer)
                report = self._run_here(before, names, stop)
            if report is not None:
                return report
        session_of(self._spark)
        if self._trusted_columns is not None and not self.plan.waiting:  # a resource may wait for one of them
            with observed(self.plan, listener, is_test=not self._bound) as observer:
                before = self._runner(observer)
                report = self._told(before, partial(before.run_if_idle, self._refs(names), stop))
            if report is not None:
                return report
        self._refresh_foreign()
        with observed(self.plan, listener, is_test=not self._bound) as observer:
            runner = self._runner(observer, before)
            done = self._told(runner, partial(runner.until_quiet, self._refs(names), stop))
        self._renew()
        return done

    def run_continuously(
        self,
        stop: threading.Event,
        *,
        every: str = "5s",
        only: Iterable[str] = (),
        listener: Listener | None = None,
        restarted: bool = False,
    ) -> None:
        """Run until ``stop`` is set, tasks by their schedules. Running batches are finished.

        ``every`` is the least time between two batches of a resource, such as ``500ms`` or ``5s``. Raises like ``run``,
        and UsageError for another text.

        When manifests are applied, changed or deleted meanwhile, the resources restart with the new plan, from where
        they stopped. A resource that fails does not stop the others. One that needs a rebuild, and those that read it,
        wait until that is done or its old definition is applied again. If all have failed it raises.
        Where a platform starts what has ended, ``restarted`` lets it wait instead if the same ones failed in the last
        day, by the same errors, which say what to do; each hour it tries them again.
        """
        from kaspr_delta.runtime.run_events import Waits
        from kaspr_delta.telemetry import observed

        pause = interval("every", every)
        names = list(only)
        self.check(names)
        session_of(self._spark)
        self._trusted_columns = None
        started: dict[ResourceRef, datetime] = {}
        # New manifests may fail anew.
        declared, failed = self.declared, self._failed() if restarted and not self._has_changed else {}
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
                # A task that was deleted and applied again starts a new schedule; the others keep theirs.
                started = {task.ref: started[task.ref] for task in self.plan.tasks if task.ref in started}
                with observed(self.plan, listener, is_test=not self._bound) as observer:
                    runner = self._runner(observer)
                    runner.started = started
                    noted = dict[ResourceRef, float]()
                    try:
                        failed_before = failed if self.declared is declared else {}
                        changed = self._changed(runner, applied, noted)
                        runner.continuously(stop, pause, self._refs(known), changed, failed_before)
                    finally:
                        self._tell(runner, noted)
                for ref, reason in runner.rebuilds.items():
                    log = self.declared.log_of(ref)
                    self._stale[ref] = _Stale(reason, log, self.delta.newest(self._spark, log).version)
            else:  # all resources in ``only`` are deleted
                while not (applied() or stop.wait(_LOOK)):
                    pass
        if self._stale:
            raise ResourceFailedError("\n".join(f"{ref} failed: {one.reason}" for ref, one in self._stale.items()))

    def waiting_since(self) -> dict[str, datetime]:
        """Since when each resource, as ``kind/name``, waits. Events say when that began, and when it ended.

        Those that need a rebuild are left out: they have an event of their own. Runs ask for it: it appends the events.
        """
        if not self.plan.waiting and self._settled.nothing_waits:
            return {}
        refs = {(event_kind(ref.kind), ref.name): ref for ref, _ in self.plan.waiting if ref not in self._stale}
        self._settled.note_waiting(nothing=False)
        waits = self._waits
        since = self._registry.note_waiting({id_: waits[str(ref)] for id_, ref in refs.items()})
        self._settled.note_waiting(nothing=not self.plan.waiting)
        return {str(refs[id_]): at for id_, at in since.items()}

    def late(self, grace: timedelta) -> dict[str, str]:
        """The resources, as ``kind/name``, that have waited for longer than ``grace``, with their reasons.

        It appends events, see ``waiting_since``.
        """
        return health.late(self._waits, self.waiting_since(), grace, datetime.now(timezone.utc))

    def report_since(self, moment: datetime, only: Collection[str] = ()) -> RunReport:
        """The report of all batches, or of those of some resources, since a moment by the clocks of their machines."""
        from kaspr_delta.runtime.report import RunReport

        found = RunReport.since(self._system, moment).resources
        return RunReport({name: one for name, one in found.items() if not only or name in only})

    def unhealthy(self, grace: timedelta, within: timedelta) -> dict[str, str]:
        """The resources, as ``kind/name``, that do not do their work, with the reasons.

        They have waited for longer than ``grace``, need a rebuild, or failed ``within`` that time, at least in the last
        day, and have had no batch since; or every event that they got ``within`` that time became a dead letter. It
        only reads.
        """
        events, now = self._registry.events(), datetime.now(timezone.utc)
        ids = self._names_by_event
        since = {ids[id_]: at for id_, at in since_in(events).items() if id_ in ids}
        fruitless = self.report_since(now - within).fruitless
        return {
            **{name: "every event became a dead letter" for name in fruitless if name in self._known},
            **{str(ref): f"failed: {one}" for ref, one in self._failed(max(within, timedelta(days=1)), events).items()},
            **health.late(self._waits, since, grace, now),
            **{str(ref): in_words(reason) for ref, reason in self.rebuilds().items()},
        }

    def _failed(
        self, within: timedelta = timedelta(days=1), events: Sequence[Event] | None = None
    ) -> dict[ResourceRef, str]:
        """The resources that failed ``within`` that time, and have had no batch since, with their errors."""
        found = self._registry.events() if events is None else events
        ids = self._names_by_event
        batches = {name: done["last_batch"] for name, done in self._store.done().resources.items()}
        after = datetime.now(timezone.utc) - within
        return {self._known[name]: error for name, error in health.failed(found, ids, batches, after)}

    def rebuild(self, resource: str, *, patience: float = 0) -> RunReport:
        """Rebuild the state of a join (``join/NAME``) or of a table that is made from a table (``table/NAME``).

        The state is computed from the current inputs with the current definition. Only results that differ are emitted,
        in one commit. Raises NotFoundError, UsageError for resources without such a state, and AlreadyRunningError if
        another process still runs the resource after ``patience`` seconds.
        """
        ref = self._rebuildable(resource, patience)
        report = self._runner(None).rebuild(ref, patience)
        self._renew()
        return report

    def compare(self, resource: str, *, patience: float = 0) -> Comparison:
        """Compare the result of a resource with what a rebuild would make of it; the rows that differ are in a table.

        Beside it there is an event; the result and its state stay as they are. Raises like ``rebuild``, and UsageError
        for a join with a stream.
        """
        ref = self._rebuildable(resource, patience)
        runner = self._runner(None)
        comparison = runner.compare(ref, patience)
        self._tell(runner)
        self._renew()
        return comparison

    def show(self, resource: str, result: Literal["new", "old"], *, patience: float = 0) -> int:
        """Let the view ``current__<name>`` show the ``new`` result, which a rebuild would make, or the old one.

        It takes one commit. Returns the number of rows that stand for those of the stored result. A rebuild, and a run
        that goes on, end it. Raises like ``rebuild``, and UsageError unless the resource has ``onChange:
        side-by-side``.
        """
        ref = self._rebuildable(resource, patience)
        if self.plan.reaction(ref) != "side-by-side":
            raise UsageError(f"{ref} has no view that could show another result: it needs onChange: side-by-side")
        runner = self._runner(None)
        number = 0
        if result == "new":
            number = runner.show(ref, patience)
        else:
            runner.hide(ref, patience)
        self._renew()
        return number

    def _rebuildable(self, resource: str, patience: float) -> ResourceRef:
        kind, _, name = resource.partition("/")
        (ref,) = self._refs([f"{short_kind(kind_called(kind))}/{name}"])
        self._refresh_foreign()
        reason = dict(self.plan.waiting).get(ref)
        if ref.kind not in {"join", "table"} or reason:
            kept = f"{ref} keeps no state that could be rebuilt: only joins and tables that are made from something do"
            raise UsageError(f"{ref} {in_words(reason)}" if reason else kept)
        aggregation = self.plan.aggregation(ref.name) if ref.kind == "table" else None
        if aggregation is not None and not isinstance(aggregation.origin, str):
            raise UsageError(
                f"{ref} is made from a stream, whose old records may be gone: delete it with --purge and apply it again"
            )
        if not patience:
            self.check([str(ref)])
        return ref

    def delete(self, kind: str, name: str, *, purge: bool = False) -> None:
        """Remove a resource from the application. Its data stay, and are used again when it is applied again.

        With ``purge`` its data are removed too: the rows of a table, the result, channel and state of a join. Kinds are
        named as with kubectl. A continuous run stops running the resource. Raises NotFoundError. With ``purge``, raises
        AlreadyRunningError if another process still runs the resource after a minute, and UsageError if it waits for
        something that the manifests lack: then its data stay.
        """
        documents = self._registry.documents()
        full = kind_among(documents, kind)
        without(documents, full, name)  # raises NotFoundError
        ref = next(one.ref for one in documents if one.id == (full, name))
        reason = dict(self.declared.waiting).get(ref)
        if purge and reason is not None:
            raise UsageError(f"{ref} {in_words(reason)}; so its tables are not known: delete it without its data")
        with contextlib.ExitStack() as locks:
            if purge:
                if not self._lock(locks, ref):
                    self._registry.change(lambda before: without(before, full, name))
                    if not self._lock(locks, ref, _PATIENCE):
                        raise AlreadyRunningError(f"{ref} is deleted, and still runs in another process: its data stay")
                # Before the registry forgets it, if possible: after an interruption here it can be deleted again.
                from kaspr_delta.runtime.resources import remove_data

                because(self._spark, "it removes tables")
                remove_data(self.spark, self.delta, self.declared, ref)
                self._settled.forget()
            self._registry.change(lambda before: [document for document in before if document.id != (full, name)])
        self._reload()

    def close(self) -> None:
        """Do nothing: a Spark session lives as long as the process, and all state is in the warehouse."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- inside -------------------------------------------------------------------------------------------------------

    @property
    def spark(self) -> SparkSession:
        """The Spark session. Where none was given, the first use starts it. Raises SetupError."""
        return session_of(self._spark)

    @property
    def uses_spark(self) -> bool:
        """Whether a Spark session was given or started."""
        return is_running(self._spark)

    def _prepare(self, spark: SparkSession) -> None:
        """Create or register the tables with a session that was started, and plan what can run with them."""
        opened_system(spark, self.delta)
        self._refresh(listed=True)

    def check(self, only: Sequence[str]) -> None:
        """Refuse a run of unknown resources, and a second run of a resource, before Spark starts for it.

        Raises NotFoundError and AlreadyRunningError.
        """
        refs = self._refs(only) or self.plan.runs
        # Leases are left to the run, which waits for all at once, also for those of a process that was killed.
        if not is_running(self._spark) and self.delta.namespace.locks_bind_other_processes:
            for ref in refs:
                with self.delta.namespace.resource_lock(str(ref)):
                    pass
        because(self._spark, "it runs resources")

    @property
    def _system(self) -> RetryTables:
        return tables_of_system(self._spark, self.delta)

    @property
    def _store(self) -> FolderStore | SessionStore:
        from kaspr_delta.control.store import application_store

        return application_store(self._system)

    @property
    def _registry(self) -> Registry:
        return Registry(self._system, self.plan.application)

    def _layout(self, table: str) -> Layout | None:
        """The layout with which a table is created; None for one that the plan does not create."""
        return next((layout for _, name, layout in tables_of(self.declared) if name == table), None)

    def _driver_table(self, plan: TablePlan) -> DriverTable:
        from kaspr_delta.engine.rows.driver_table import DriverTable

        return DriverTable(self._spark, self.delta, plan, self._layout(plan.delta_name))

    @property
    def _settled(self) -> Settled:
        return Settled(self.delta.namespace.checkpoints)

    @property
    def _typed(self) -> TypedTables:
        return TypedTables(self._spark, self.delta, known_before=self._trusted_columns or {}, seen=self._seen_columns)

    def _reload(self) -> None:
        """Make the plan again if manifests or tables of others have changed."""
        documents, self._own = _with(self._registry.documents(), self._own)
        applied = self._registry.plan(documents)
        if applied is None:
            # Manifests that this version refuses, of a newer one, change nothing here.
            named = {None, self.declared.application}
            applied = self.declared if any(one.application in named for one in documents) else self.plan.emptied
        declared = applied if self._bound else applied.unbound
        if declared != self.declared:
            self.declared, self._stale = declared, {}
        self._refresh()

    def _refresh_foreign(self) -> None:
        """Make the plan again if tables of others have changed, or were not looked at."""
        trusted, self._trusted_columns = self._trusted_columns, None
        if trusted or self._stale or self._reads_foreign or self._expects_results:
            self._stale = {}
            self._refresh()

    def _refresh(self, *, listed: bool = False) -> None:
        """Make the plan of what can run. ``listed``: the tables of the schema were just listed.

        Without a session, tables are not created, nor do they get new columns: the session that starts later does it.
        """
        known = self._known_now()
        if not is_running(self._spark):
            settles = _among(self._settled.layouts())
            plan = replace(self._typed, adds=False, has=settles).follow(known)
            if not is_running(self._spark):  # only Spark may know the table of another
                self.plan = plan
            return
        from kaspr_delta.runtime.resources import (
            create_records_views,
            create_tables,
            create_views,
            declare_storage,
        )

        if known == self._refreshed and not self._expects_results:
            return
        if not listed:
            self.delta.create_schema(self.spark)  # lists its tables: another process may have dropped some
        if self._own is not None:
            # Only tables that are missing are made: others are those of what was applied, by which others run.
            waiting = create_tables(self.spark, self.delta, known, lambda *_: True)
            self.plan = replace(self._typed, adds=False, waits=True).follow(without_waiting(known, waiting))
            self._refreshed = known
            return
        layouts = self._settled.layouts()
        is_settled = _among(layouts)

        def has(table: str, layout: Layout) -> bool:
            return is_settled(table, layout) and not self.delta.was_created(table)

        # Also registers existing tables: Spark may read their columns in ``follow``.
        waiting = create_tables(self.spark, self.delta, known, has)
        plan = replace(self._typed, has=has).follow(without_waiting(known, waiting))
        plan, got = declare_storage(self.spark, self.delta, plan, has)
        replaced = {join.ref for join in results_to_replace(self.plan)}
        failed = create_views(self.spark, self.delta, plan, has, replaced)
        plan = replace(plan, notices=(*plan.notices, *create_records_views(self.spark, self.delta, plan, has)))
        self.plan = without_waiting(plan, failed)
        for ref, table, _ in tables_of(plan):
            if ref in failed:
                got.pop(table, None)
        if got != layouts:
            self._settled.write(got)
        self._settle_columns()
        self._refreshed = known

    def _settle_columns(self) -> None:
        """Keep the columns of tables that were looked at, for runs that trust them: a look costs statements."""
        if self.delta.namespace.on_databricks and (self._seen_columns or self._trusted_columns is None):
            logs = {join.log for join in self.declared.joins}
            named = {table.delta_name for table in self.declared.tables if table.is_foreign} | logs
            found = {**(self._trusted_columns or {}), **self._seen_columns}
            self._settled.write_columns({table: columns for table, columns in found.items() if table in named})

    def _known_now(self) -> Plan:
        self._seen_columns.clear()
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

    def _changed(
        self, runner: Runner, applied: Callable[[], bool], noted: dict[ResourceRef, float]
    ) -> Callable[[], bool]:
        """A function that returns whether a continuous run has to make its plan again.

        Tables of others, and states that need a rebuild, are looked at after a failure, and while something waits or
        has failed. A failure gets its event at once, and each hour, for the run may go on for ever: see
        ``_note_failures``.
        """
        looked, failed = time.monotonic(), 0

        def changed() -> bool:
            nonlocal looked, failed
            if applied():
                return True
            if runner.failed:
                self._note_failures(runner, noted)
            expects = self.plan.waiting or self._expects_results
            pause = _LOOK_AGAIN if expects else _LOOK_AFTER_FAILURE if runner.failed else math.inf
            if time.monotonic() - looked <= pause and runner.failed == failed:
                return False
            looked, failed = time.monotonic(), runner.failed
            rebuilt = any(map(self._is_rebuilt, self._stale.values())) or self._are_replaced()
            return rebuilt or self._known_now() != self._refreshed

        return changed

    def _is_rebuilt(self, one: _Stale) -> bool:
        return self.delta.newest(self._spark, one.log).version != one.version

    def _tell(self, runner: Runner, noted: dict[ResourceRef, float] | None = None) -> None:
        """Append an event for each resource that needs a rebuild, that failed, that was compared, or that was rebuilt.

        After a failure the next run asks the catalog about all tables.
        """
        for ref, comparison in runner.compared.items():
            self._registry.note(kind_called(ref.kind), ref.name, COMPARED, comparison)
        for ref, reason in runner.rebuilds.items():
            self._registry.warn(kind_called(ref.kind), ref.name, REBUILD_REQUIRED, reason)
        self._note_failures(runner, {} if noted is None else noted)
        if runner.failed:  # the next run looks at the tables themselves
            self._settled.forget()
        for ref, reason in runner.rebuilt.items():
            self._registry.note(kind_called(ref.kind), ref.name, REBUILT, f"{reason}: made anew, as onChange says")

    def _told(self, runner: Runner, run: Callable[[], Report]) -> Report:
        """The report of a run, whose events are appended, also if it fails. Without a report another one goes on."""
        try:
            report = run()
        except BaseException:
            self._tell(runner)
            raise
        if report is not None:
            self._tell(runner)
        return report

    @property
    def _expects_results(self) -> bool:
        """Whether results of joins had other columns when the plan was made. A process may have replaced them."""
        return any(results_to_replace(self.plan))

    def _renew(self) -> None:
        """Make the plan again if results of joins may have been replaced."""
        if self._expects_results:
            self._refresh()

    def _are_replaced(self) -> bool:
        """Whether the result of a join that had other columns has those of its definition now, with all rows."""
        for join in results_to_replace(self.plan):
            with made_to_wait({}, join.ref):  # it may be dropped at this moment
                is_whole = not Replacement(self.delta.namespace.checkpoints, join.ref).is_under_way
                layout = result_layout_of(self.plan, join)
                if is_whole and not problems_of(self.delta.columns(self.spark, join.result), layout):
                    return True
        return False

    def _note_failures(self, runner: Runner, noted: dict[ResourceRef, float]) -> None:
        """Append events of failures that have none from the last hour.

        ``noted`` has by resource the moment, on the steady clock, from which on its failure needs another event.
        """
        for ref, account in runner.failures.items():
            now = time.monotonic()
            if now < noted.get(ref, now):
                continue
            noted[ref] = now + _TRY_TO_NOTE
            try:
                worked = self._store.done().resources.get(str(ref), {}).get("last_batch")
                self._registry.note_failure(event_kind(ref.kind), ref.name, account, worked)
                noted[ref] = now + _NOTE_AGAIN
            except Exception:  # noqa: BLE001  what stopped the resource may stop this too, and is raised by the run
                _log.warning("the failure of %s has no event", ref, exc_info=True)

    def _lock(self, locks: contextlib.ExitStack, ref: ResourceRef, patience: float = 0) -> bool:
        """Take the lock of a resource. Returns whether it became free in so many seconds."""
        with contextlib.suppress(AlreadyRunningError):
            lock_in_time(locks, self.delta.namespace, str(ref), patience)
            return True
        return False

    @property
    def _waits(self) -> dict[str, str]:
        """The reasons of the resources that wait, in words."""
        return {str(ref): in_words(reason) for ref, reason in self.plan.waiting}

    @property
    def _known(self) -> dict[str, ResourceRef]:
        """The resources that run or wait, by name."""
        return {str(ref): ref for ref in (*self.plan.runs, *(ref for ref, _ in self.plan.waiting))}

    @property
    def _names_by_event(self) -> dict[tuple[str, str], str]:
        """The names of the known resources by the kind and name that their events have."""
        return {(event_kind(ref.kind), ref.name): name for name, ref in self._known.items()}

    def _runner(self, listener: Listener | None, before: Runner | None = None) -> Runner:
        """A runner on Spark, which goes on from another one."""
        from kaspr_delta.runtime.run_events import ignore_event
        from kaspr_delta.runtime.runner import Runner

        runner = Runner(self.spark, self.delta, self.plan, listener or ignore_event, waiting=self._waiting_now)
        if before is not None:
            runner.go_on_from(before)
        return runner

    def _begins_here(self) -> bool:
        """Whether a run begins without Spark, and goes on so as far as that goes.

        What waits, or reads tables of others, is left to Spark, which may know more about it.
        """
        if is_running(self._spark) or not self.delta.namespace.locks_bind_other_processes or self._own is not None:
            return False
        return not (self.plan.waiting or self._stale or self._reads_foreign)

    def _runner_here(self, listener: Listener) -> Runner:
        from kaspr_delta.runtime.driver_runner import DriverRunner

        return DriverRunner(without_spark(), self.delta, self.plan, listener, waiting=self._waiting_now)

    def _run_here(self, runner: Runner, names: Sequence[str], stop: threading.Event | None) -> RunReport | None:
        """Run without Spark. Returns the report, or None if Spark has to go on."""
        from kaspr_delta.runtime.resources import create_tables_here

        try:
            got = create_tables_here(self.delta, self.plan, _among(self._settled.layouts()))
            self._settled.write(got)
            report = runner.until_quiet(self._refs(names), stop)
        except SparkNeededError as needed:
            because(self._spark, str(needed) or "it runs resources")
            return None
        except BaseException:
            self._tell(runner)
            raise
        self._tell(runner)
        return report

    def _refs(self, only: Iterable[str]) -> list[ResourceRef]:
        known = self._known
        for name in (wanted := list(only)):
            if name not in known:
                raise NotFoundError.among("resource", name, known)
        return [known[name] for name in wanted]

    def _readable(self, plan: JoinPlan | None, declared: JoinPlan | None) -> tuple[JoinPlan | None, Plan]:
        """A join with the plan by which its results are read.

        They are read as they are stored if it waits, or if only a rebuild gives them the columns of its definition.
        """
        if isinstance(plan, TableTableJoinPlan) and plan.other_columns:
            plan, declared = None, plan
        if plan is None and declared is not None:
            stored = with_stored_results(self._spark, self.delta, self.declared, declared)
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
        made = known_topics(self._system)
        if name not in made:
            raise NotFoundError.among("topic", name, [*(topic.name for topic in self.plan.topics), *made])
        self.delta.create(self._spark, topic_table(name), TOPIC)
        return self.plan.named_topic(name)


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
