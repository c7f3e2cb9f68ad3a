"""One event through one agent: pipeline, outputs, and dead letters when the author's code fails.

The same class runs in Spark's Python workers (large batches of agents without tables and ``take``) and on the driver
(all other batches).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from kaspr_delta.engine.agent.state import most_of
from kaspr_delta.engine.agent.step import CompiledOperation, Step
from kaspr_delta.engine.agent.table import Table
from kaspr_delta.engine.agent.table_state import TableState
from kaspr_delta.engine.agent.windowed_table import WindowedTable, table_object
from kaspr_delta.engine.batch.counters import counter
from kaspr_delta.engine.streams.clock import Clock
from kaspr_delta.engine.streams.effect import Effect, to_arrow
from kaspr_delta.engine.streams.event import App, ChannelDecoder, Decoder, Event, InputRecord, records_of
from kaspr_delta.engine.streams.output import Topics
from kaspr_delta.engine.streams.selector import problem
from kaspr_delta.errors import SerializationError
from kaspr_delta.functions.failure import AUTHORS_CODE_FAILED, account_of_failure
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.functions.time_limit import at_most
from kaspr_delta.plan.definition.resources import AgentPlan, TaskPlan

# The names that `init` made, once per process: `init` may be costly, and its objects need not be picklable.
_init_scopes: dict[tuple[str, Snippet | None], dict[str, Any]] = {}


@dataclass
class Executor:
    """Runs events of one agent, or the firings of one task, one after another.

    ``tables`` holds the states of the tables that the agent's operations declare, by table name. With ``read_only``
    functions may not write tables. An event may take ``timeout`` seconds. ``identity`` distinguishes this agent from
    agents of the same name in other warehouses.
    """

    identity: str
    plan: AgentPlan | TaskPlan
    app: App
    decoder: Decoder
    topics: Topics
    tables: Mapping[str, TableState]
    read_only: bool
    timeout: float
    _limit: at_most = field(init=False, repr=False)
    _step: Step = field(init=False, repr=False)
    _asks_for_context: bool = field(init=False, repr=False)
    _operations: list[CompiledOperation] = field(default_factory=list, init=False, repr=False)
    _objects: dict[str, Table | WindowedTable] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._limit = at_most(self.timeout)
        self._step = Step(self.topics, self.tables)
        self._asks_for_context = any(snippet.may_use("context") for snippet in self._functions)
        self._announce()

    @property
    def _functions(self) -> tuple[Snippet, ...]:
        return tuple(operation.function for operation in self.plan.pipeline if operation.function is not None)

    def _announce(self) -> None:
        """Make the classes of the manifest known: a pickled event is decoded before its function is executed."""
        for snippet in (*filter(None, [self.plan.init]), *self._functions):
            snippet.announce()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the functions of the manifest: they cannot be pickled, so a worker makes its own."""
        return {**self.__dict__, "_operations": [], "_objects": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._announce()

    def effects(self, batch: pa.RecordBatch, seq: int) -> Iterator[pa.RecordBatch]:
        """The effects of a batch, numbered from ``seq``. With ``take`` several records are one event."""
        records, most = list(records_of(batch)), most_of(self.plan.take)
        if self.plan.take is None:
            effects = (effect for record in records for effect in self.process(record))
        else:
            groups = (records[first : first + most] for first in range(0, len(records), most))
            effects = (effect for group in groups for effect in self.process_together(group))
        yield to_arrow(effects, seq)

    def process(self, record: InputRecord) -> list[Effect]:
        """The sends of one event, or its dead letter; its table writes are kept in ``tables``.

        A failed event leaves no sends and no writes, only a dead letter. ``init`` then runs again for the next event.
        """
        try:
            key, value = self.decoder(record)
        except SerializationError as error:
            return [self._dead_letter(record, account_of_failure(error, frames=4))]
        context = {"app": self.app, "event": Event(record, key, value)} if self._asks_for_context else {}
        return self._attempt(value, context, record.timestamp, ((record, value),))

    def process_together(self, records: Sequence[InputRecord]) -> list[Effect]:
        """The sends of several records that are one event (see ``take``): if it fails, each record is a dead letter.

        A record that cannot be decoded is a dead letter on its own; the others are still processed.
        """
        letters, decoded, events = [], [], []
        for record in records:
            try:
                key, value = self.decoder(record)
            except SerializationError as error:
                letters.append(self._dead_letter(record, account_of_failure(error, frames=4)))
            else:
                decoded.append((record, value))
                events.append(Event(record, key, value))
        if not events:
            return letters
        newest = max((record.timestamp for record, _ in decoded if record.timestamp is not None), default=None)
        context = {"app": self.app, "event": events}
        return [*letters, *self._attempt([value for _, value in decoded], context, newest, decoded)]

    def given_up(self, records: Sequence[InputRecord], account: str) -> list[Effect]:
        """The dead letters of a failed event. Its writes are dropped, and ``init`` runs again for the next event."""
        _init_scopes.pop((self.identity, self.plan.init), None)
        self._operations.clear()
        for state in self.tables.values():
            state.drop()
        return [self._dead_letter(record, account) for record in records]

    def fire(self, source: str, at: int) -> list[Effect]:
        """The sends of one firing of a task at a time. There is no event: the first operation is given None."""
        return self._attempt(None, {"app": self.app}, at, (), source)

    @property
    def clocks(self) -> dict[str, Clock]:
        """The stream times of the tables with windows, by table name."""
        return {name: state.clock for name, state in self.tables.items() if state.clock is not None}

    @property
    def counts(self) -> dict[str, int]:
        """How often functions used each table, by table and operation (see ``batch.counters``)."""
        return {
            counter("table_operations", name, operation): times
            for name, state in self.tables.items()
            for operation, times in state.counts.items()
        }

    def _dead_letter(self, record: InputRecord, detail: str) -> Effect:
        value = record.value
        if value is not None and isinstance(self.decoder, ChannelDecoder):
            value = self.decoder.shown(value)
        return _letter(record.source, record.key, value, record.timestamp, detail)

    def _attempt(
        self,
        value: Any,
        context: dict[str, Any],
        timestamp: int | None,
        records: Sequence[tuple[InputRecord, Any]],
        source: str = "",
    ) -> list[Effect]:
        """Run the pipeline and return its effects; if it fails, drop its writes and return dead letters instead.

        ``records``, with their values, are the event. ``source`` names the origin of a run without records.
        """
        step = self._step
        effects = step.begin(context, timestamp)
        try:
            with self._limit:
                for state in self.tables.values():
                    if state.clock is not None:
                        state.clock.arrive(records)
                for final in self._finals(step, value):
                    for output in self.plan.outputs:
                        step.send(output, final, {})
        except AUTHORS_CODE_FAILED as error:
            account = account_of_failure(error, frames=4)
            letters = self.given_up([record for record, _ in records], account)
            return letters or [_letter(source, None, None, timestamp, account)]
        for state in self.tables.values():
            state.keep(timestamp)
        return effects

    def _finals(self, step: Step, value: Any) -> Iterator[Any]:
        """The results of the pipeline: depth-first by the values of the first operation, then level by level."""
        operations = self._operations or self.operations()
        if operations and self.plan.init is not None:
            self._scope()  # another agent with an equal `init` may have executed it since the last event
        for result in operations[0].apply(step, value) if operations else (value,):
            level = [result]
            for operation in operations[1:]:
                level = [later for item in level for later in operation.apply(step, item)]
            yield from level

    def operations(self) -> list[CompiledOperation]:
        """The operations with their tables; new ones after a failed event. Raises TypeError: see ``_table``."""
        if not self._operations:  # all or none: a time limit may strike here
            self._operations[:] = [
                CompiledOperation(plan, {of.parameter: self._table(of.table) for of in plan.tables}, self._scope)
                for plan in self.plan.pipeline
            ]
        return self._operations

    def _table(self, name: str) -> Table | WindowedTable:
        """The table object that functions get. Raises TypeError for a defaultSelector that returns no class."""
        if name not in self._objects:
            self._objects[name] = table_object(self.tables[name], read_only=self.read_only)
        return self._objects[name]

    def _scope(self) -> dict[str, Any]:
        """The names that functions see: those that ``init`` made, and ``context``."""
        init, known = self.plan.init, (self.identity, self.plan.init)
        scope = _init_scopes.get(known)
        if scope is None:
            scope = {"context": {"app": self.app}}
            _init_scopes[known] = init.run(scope) if init is not None else scope
        elif init is not None:
            init.enter(scope)
        return scope


def _letter(source: str, key: bytes | None, value: bytes | None, at: int | None, detail: str) -> Effect:
    return Effect("dead-letter", source, key, value, None, at, None, problem("event failed", detail, None))
