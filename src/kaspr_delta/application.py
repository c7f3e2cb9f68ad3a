"""The front door for Python: open an application, put data in, run it, look at what came out."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from kaspr_delta.api.join import JoinHandle, StreamJoinHandle
from kaspr_delta.api.table import TableHandle
from kaspr_delta.api.topic import ChangelogHandle, ChannelHandle, TopicHandle
from kaspr_delta.engine.live_table import LiveTable
from kaspr_delta.engine.topics import known_topics
from kaspr_delta.errors import ManifestError, NotFoundError, UsageError
from kaspr_delta.plan.application_plan import Plan
from kaspr_delta.plan.builder import build_plans
from kaspr_delta.plan.definition import ResourceRef, Serializers, TopicPlan
from kaspr_delta.plan.join_plans import TableTableJoinPlan
from kaspr_delta.plan.names import delta_name, topic_table
from kaspr_delta.runtime.registry import Document, Registry, applied, loaded
from kaspr_delta.runtime.report import RunReport, Status
from kaspr_delta.runtime.resources import create_system_tables, create_tables, create_views, remove_data
from kaspr_delta.runtime.run_events import Listener, nobody
from kaspr_delta.runtime.runner import Runner
from kaspr_delta.runtime.session import databricks_session, spark_session
from kaspr_delta.settings import DEFAULT_WAREHOUSE, WAREHOUSE_VARIABLE
from kaspr_delta.spec.diagnostics import has_errors
from kaspr_delta.spec.kinds import kind_called, short_kind
from kaspr_delta.spec.loader import LoadedManifests, load_path
from kaspr_delta.storage.delta import Delta
from kaspr_delta.storage.layout import DEAD_LETTERS, TOPIC
from kaspr_delta.storage.namespace import Namespace, Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Self


class Application:
    """An application on a warehouse.

    Example::

        with Application.open("bundles/order-system", warehouse="./wh") as app:
            app.topic("raw-orders").produce([{"key": "O1", "value": {"product_id": "P100"}}])
            app.run()
            app.join("orders-products-join").to_dict()
    """

    def __init__(self, spark: SparkSession, namespace: Namespace, plan: Plan) -> None:
        """Use ``Application.open``."""
        self.spark = spark
        self.plan = plan
        self.delta = Delta(namespace)

    @classmethod
    def open(
        cls,
        path: str | Path | None = None,
        *,
        warehouse: str | Path | None = None,
        app: str | None = None,
        spark: SparkSession | None = None,
        profile: str | None = None,
    ) -> Application:
        """Open an application: apply the manifests of a file or folder, or, without one, take those applied before.

        What was applied from other files stays; what is no longer in this file or folder is gone.

        ``warehouse`` is a folder, or ``unity://CATALOG.SCHEMA/VOLUME``; by default the environment variable
        ``KASPR_DELTA_WAREHOUSE`` or ``./.kaspr-delta``. ``app`` names the application where there are several.
        ``spark`` brings a session, classic or Connect; ``profile`` names a profile of ``~/.databrickscfg``, whose
        compute is used through databricks-connect.

        Raises ManifestError (with every finding), NotFoundError, UsageError and SetupError.
        """
        place = Warehouse(str(warehouse or os.environ.get(WAREHOUSE_VARIABLE) or DEFAULT_WAREHOUSE))
        if profile is not None:
            spark = _session_of(profile, place, spark)
        if path is not None:
            return cls._apply(Path(path), place, app, spark)
        schema = _applied_schema(place, app)
        session = spark or spark_session(place.log_file)
        delta = Delta(place.namespace(schema))
        create_system_tables(session, delta)
        documents = Registry(delta).documents(session)
        return cls._with_tables(session, delta, _plan_of(loaded(documents), app if place.is_unity else schema))

    @classmethod
    def _apply(cls, path: Path, place: Warehouse, app: str | None, spark: SparkSession | None) -> Application:
        manifests = load_path(path)
        alone = _plan_of(manifests, app)  # before Spark starts: a mistake in YAML should not cost seconds
        session = spark or spark_session(place.log_file)
        delta = Delta(place.namespace(alone.schema))
        create_system_tables(session, delta)
        registry = Registry(delta)
        before = registry.documents(session)
        after = applied(before, path, [Document.of(manifest) for manifest in manifests.manifests])
        plan = _plan_of(loaded(after), alone.application)
        if after != before:
            registry.replace(session, after)
        return cls._with_tables(session, delta, plan)

    @classmethod
    def _with_tables(cls, session: SparkSession, delta: Delta, plan: Plan) -> Application:
        create_tables(session, delta, plan)
        create_views(session, delta, plan)
        return cls(session, delta.namespace, plan)

    # -- data ---------------------------------------------------------------------------------------------------------

    def topic(self, name: str) -> TopicHandle | ChangelogHandle:
        """A topic by name; the changelog of a table is one too. Raises NotFoundError."""
        table = self.plan.changelog(name)
        if table is not None:
            return ChangelogHandle(self.spark, LiveTable(self.delta, table), self._made_from(table.name))
        plan = self.plan.topic(name) or self._selected_topic(name)
        return TopicHandle(self.spark, self.delta, plan)

    def table(self, name: str) -> TableHandle:
        """A table by name; one that is made from something can be read only. Raises NotFoundError."""
        plan = self.plan.table(name)
        if plan is None:
            raise NotFoundError.among("table", name, [table.name for table in self.plan.tables])
        return TableHandle(self.spark, LiveTable(self.delta, plan), self._made_from(name))

    def join(self, name: str) -> JoinHandle | StreamJoinHandle:
        """A join's result by the join's name: a table, or, of a join with a stream, what its channel gives.

        Raises NotFoundError.
        """
        plan = self.plan.join(name)
        if plan is None:
            raise NotFoundError.among("join", name, [join.name for join in self.plan.joins])
        if isinstance(plan, TableTableJoinPlan):
            return JoinHandle(self.spark, self.delta, plan)
        return StreamJoinHandle(plan, ChannelHandle(self.spark, self.delta, plan))

    def channel(self, name: str) -> ChannelHandle:
        """A join's channel by the channel's name. Raises NotFoundError."""
        plan = self.plan.channel(name)
        if plan is None:
            raise NotFoundError.among("channel", name, [join.channel for join in self.plan.joins])
        return ChannelHandle(self.spark, self.delta, plan)

    def dead_letters(self, resource: str | None = None) -> list[dict[str, Any]]:
        """What could not be processed and why, oldest first; of one resource (``kind/name``) or of all."""
        rows = self.delta.read(self.spark, DEAD_LETTERS)
        if resource is not None:
            rows = rows.where(F.col("resource") == resource)
        return [row.asDict() for row in rows.orderBy("timestamp", "resource", "key").collect()]

    def status(self) -> Status:
        """How the resources stand, and the counters of all runs so far: only what was committed counts."""
        return Status.of(self.spark, self.delta, self.plan)

    def sql(self, text: str) -> DataFrame:
        """Run SQL in the application's schema: tables and results by their Delta names, and the views ``v_<name>``.

        A statement that writes to a local warehouse takes no file lock: let no other process commit to the table.
        """
        self.delta.use(self.spark)
        return self.spark.sql(text)

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self, *, only: Iterable[str] = (), listener: Listener | None = None) -> RunReport:
        """Run until everything is caught up; what each resource did.

        ``only`` restricts the run to resources named ``kind/name``; a task runs, once, if it is named. ``listener`` is
        told what happens meanwhile (``runtime.run_events``), from the threads in which it happens. Raises
        ResourceFailedError, AlreadyRunningError, NotQuietError and NotFoundError.
        """
        start = datetime.now(timezone.utc)
        self._runner(listener).until_quiet(self._refs(only))
        return RunReport.since(self.spark, self.delta, start)

    def run_continuously(
        self,
        stop: threading.Event,
        *,
        every: str = "5 seconds",
        only: Iterable[str] = (),
        listener: Listener | None = None,
    ) -> None:
        """Run until ``stop`` is set, tasks by their schedules; batches under way are finished. Raises like ``run``."""
        self._runner(listener).continuously(stop, every, self._refs(only))

    def rebuild(self, resource: str) -> RunReport:
        """Make the state of a join (``join/NAME``) or of a table that is made from a table (``table/NAME``) anew.

        It is made from what it reads as that is now, by its definition as it is now. What comes out differently is
        emitted, in one commit; what stays the same is not. Raises NotFoundError, UsageError for what keeps no state,
        and AlreadyRunningError.
        """
        start = datetime.now(timezone.utc)
        kind, _, name = resource.partition("/")
        (ref,) = self._refs([f"{short_kind(kind_called(kind))}/{name}"])
        reason = dict(self.plan.waiting).get(ref)
        if ref.kind not in {"join", "table"} or reason:
            kept = f"{ref} keeps no state that could be rebuilt: only joins and tables that are made from something do"
            msg = f"{ref} waits: {reason}" if reason else kept
            raise UsageError(msg)
        aggregation = self.plan.aggregation(ref.name) if ref.kind == "table" else None
        if aggregation is not None and not isinstance(aggregation.origin, str):
            msg = (
                f"{ref} is made from a stream, whose old records may be gone: delete it with --purge and apply it again"
            )
            raise UsageError(msg)
        self._runner(None).rebuild(ref)
        return RunReport.since(self.spark, self.delta, start)

    def delete(self, kind: str, name: str, *, purge: bool = False) -> None:
        """Remove a resource from the application. Its data stay, and are found again when it is applied anew.

        With ``purge`` its data go too: the rows of a table, the result, channel and state of a join. Kinds are called
        as with kubectl. Raises NotFoundError, and AlreadyRunningError while the resource runs.
        """
        registry = Registry(self.delta)
        full = kind_called(kind)
        before = registry.documents(self.spark)
        after = [document for document in before if (document.kind, document.name) != (full, name)]
        if len(after) == len(before):
            raise NotFoundError.among(short_kind(full), name, [d.name for d in before if d.kind == full])
        ref = ResourceRef(short_kind(full), name)
        with self.delta.namespace.running(str(ref)):
            if purge:  # before it is forgotten: whoever is interrupted here can still name it
                remove_data(self.spark, self.delta, self.plan, ref)
            registry.replace(self.spark, after)
        plans, _ = build_plans(loaded(after))
        self.plan = next((plan for plan in plans if plan.schema == self.plan.schema), self.plan)

    def close(self) -> None:
        """Nothing is held open: the Spark session lives as long as the process, all state is in the warehouse."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _runner(self, listener: Listener | None) -> Runner:
        return Runner(self.spark, self.delta, self.plan, listener or nobody)

    def _refs(self, only: Iterable[str]) -> list[ResourceRef]:
        known = {str(ref): ref for ref in (*self.plan.runs, *(ref for ref, _ in self.plan.waiting))}
        for name in (wanted := list(only)):
            if name not in known:
                raise NotFoundError.among("resource", name, known)
        return [known[name] for name in wanted]

    def _made_from(self, table: str) -> str | None:
        """What a table is made from, as ``kind/name``; None where functions write it. One that waits is made too."""
        made = self.plan.aggregation(table)
        if made is not None:
            return self.plan.origin_of(made)
        return "what is not there yet" if ResourceRef("table", table) in dict(self.plan.waiting) else None

    def _selected_topic(self, name: str) -> TopicPlan:
        """A topic that only a nameSelector named: it is there once something was sent to it."""
        made = known_topics(self.delta, self.spark)
        if name not in made:
            raise NotFoundError.among("topic", name, [*(topic.name for topic in self.plan.topics), *made])
        table = topic_table(name)
        self.delta.ensure(self.spark, table, TOPIC)
        plain = next((topic.serializers for topic in self.plan.topics), Serializers("json", "json"))
        return TopicPlan(name, table, self.plan.default_partitions, plain)


def _session_of(profile: str, place: Warehouse, spark: SparkSession | None) -> SparkSession:
    """The session of a profile. Raises UsageError where it could not reach the warehouse, and SetupError."""
    if spark is not None:
        msg = "either a session or a profile: both were given"
        raise UsageError(msg)
    if not place.is_unity:
        msg = (
            f"Databricks cannot reach {place.text} on this machine: with a profile, name unity://CATALOG.SCHEMA/VOLUME"
        )
        raise UsageError(msg)
    return databricks_session(profile)


def _plan_of(manifests: LoadedManifests, app: str | None) -> Plan:
    """The one application, or the one of that name. Raises ManifestError, NotFoundError and UsageError."""
    plans, findings = build_plans(manifests)
    if has_errors(findings):
        raise ManifestError(findings)
    if app is not None:
        chosen = [plan for plan in plans if app in {plan.application, plan.schema}]
        if not chosen:
            raise NotFoundError.among("application", app, [plan.application for plan in plans])
        return chosen[0]
    if len(plans) == 1:
        return plans[0]
    if not plans:
        msg = "there is no application in these manifests: label resources with kaspr.io/app, or add a KasprApp"
        raise UsageError(msg)
    msg = f"there are several applications: choose one with --app ({', '.join(plan.application for plan in plans)})"
    raise UsageError(msg)


def _applied_schema(place: Warehouse, app: str | None) -> str:
    """The schema of the application that was applied to a warehouse."""
    schemas = place.schemas()
    if app is not None:
        if not place.is_unity and delta_name(app) not in schemas:
            raise NotFoundError.among("application", app, schemas)
        return delta_name(app)
    if len(schemas) == 1:
        return schemas[0]
    if not schemas:
        msg = f"nothing was applied to {place.text} yet: name the manifests, as in `kaspr-delta run PATH`"
        raise NotFoundError(msg)
    msg = f"{place.text} holds several applications: choose one with --app ({', '.join(schemas)})"
    raise UsageError(msg)
