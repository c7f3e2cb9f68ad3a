"""One event through one agent: pipeline, outputs, and what happens when the author's code fails.

The same class runs in Spark's Python workers (agents without tables) and where the batch is handled (agents with
tables).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from kaspr_delta.engine.agent.changelog import table_write
from kaspr_delta.engine.agent.clock import Clock
from kaspr_delta.engine.agent.effect import Effect
from kaspr_delta.engine.agent.event import App, Decoder, Event, InputRecord
from kaspr_delta.engine.agent.output import Topics, send
from kaspr_delta.engine.agent.table import Table
from kaspr_delta.engine.agent.table_state import AnyState
from kaspr_delta.engine.agent.windowed_table import WindowedTable
from kaspr_delta.engine.metrics import counter
from kaspr_delta.errors import SerializationError
from kaspr_delta.functions.call import call, fan_out
from kaspr_delta.functions.failure import AUTHORS_CODE_FAILED, account_of_failure
from kaspr_delta.functions.snippet import Snippet, in_empty_scope
from kaspr_delta.functions.time_limit import at_most
from kaspr_delta.plan.definition import OperationPlan, SendPlan, TablePlan, TakePlan

# What `init` made, once per process: it may be costly, and what it holds need not be picklable.
_init_scopes: dict[tuple[str, Snippet | None], dict[str, Any]] = {}


class PipelinePlan(Protocol):
    """What an agent and a task have in common."""

    @property
    def init(self) -> Snippet | None:
        """Statements that run before the first event."""
        ...

    @property
    def pipeline(self) -> tuple[OperationPlan, ...]:
        """The operations in order."""
        ...

    @property
    def outputs(self) -> tuple[SendPlan, ...]:
        """Where the final values are sent."""
        ...

    @property
    def take(self) -> TakePlan | None:
        """How many events are handled at once."""
        ...


@dataclass
class Executor:
    """Runs events of one agent, or the firings of one task, one after another.

    ``tables`` holds, by table name, the state of the tables that the agent's operations declare, ``clocks`` the times
    of those with windows; with ``read_only`` functions may not write them. An event may take ``timeout`` seconds.
    ``identity`` tells this agent from those of the same name in other warehouses.
    """

    identity: str
    plan: PipelinePlan
    app: App
    decoder: Decoder
    topics: Topics
    tables: Mapping[str, AnyState] = field(default_factory=dict)
    clocks: Mapping[str, Clock] = field(default_factory=dict)
    read_only: bool = False
    timeout: float = 300.0

    def process(self, *records: InputRecord) -> list[Effect]:
        """The sends of one event, which with ``take`` is several records; its table writes are kept in ``tables``.

        An event that fails leaves neither: its effects are dead letters, one a record. ``init`` then runs anew for the
        next event. Of several records, those that cannot be decoded are dead letters by themselves.
        """
        letters, events = [], []
        for record in records:
            try:
                events.append((record, self.decoder(record)))
            except SerializationError:
                letters.append(_dead_letter(record, account_of_failure(frames=4)))
        return [*letters, *self._handle(events)] if events else letters

    def fire(self, source: str, at: datetime) -> list[Effect]:
        """The sends of one run without an event, a task's: its first operation is given None."""
        return self._attempt(None, {}, at, lambda account: [_letter(source, None, None, at, account)])

    @property
    def counts(self) -> dict[str, int]:
        """How often functions did what to which table (see ``engine.metrics``)."""
        return {
            counter("table_operations", name, operation): times
            for name, state in self.tables.items()
            for operation, times in state.counts.items()
        }

    def _handle(self, events: list[tuple[InputRecord, Event]]) -> list[Effect]:
        happened: Any = [event for _, event in events]
        value: Any = [event.value for event in happened]
        if self.plan.take is None:
            (happened,), (value,) = happened, value
        timestamp = max((record.timestamp for record, _ in events if record.timestamp), default=None)

        def letters(account: str) -> list[Effect]:
            return [_dead_letter(record, account) for record, _ in events]

        return self._attempt(value, {"event": happened}, timestamp, letters, events)

    def _attempt(
        self,
        value: Any,
        context: Mapping[str, Any],
        timestamp: datetime | None,
        letters: Callable[[str], list[Effect]],
        events: Sequence[tuple[InputRecord, Event]] = (),
    ) -> list[Effect]:
        """Run the pipeline; what it did stands, or else nothing of it does and there are letters instead."""
        effects: list[Effect] = []
        try:
            with at_most(self.timeout):
                for clock in self.clocks.values():
                    clock.arrive(events)
                scope = {**self._init_scope(), "context": {"app": self.app, **context}}
                self._run(_Step(self, scope, timestamp, effects), value)
        except AUTHORS_CODE_FAILED:
            _init_scopes.pop((self.identity, self.plan.init), None)
            for part in (*self.tables.values(), *self.clocks.values()):
                part.drop()
            return letters(account_of_failure(frames=4))
        for name, state in self.tables.items():
            state.keep(timestamp, self.clocks[name].stream if name in self.clocks else None)
        for clock in self.clocks.values():
            clock.keep()
        return effects

    def _run(self, step: _Step, value: Any) -> None:
        for final in self._final_values(step, value):
            for output in self.plan.outputs:
                step.send(output, final, {})

    def _final_values(self, step: _Step, value: Any) -> Iterator[Any]:
        """What comes out of the pipeline: depth-first by the values of its first operation, then level by level."""
        if not self.plan.pipeline:
            yield value
            return
        first, *rest = self.plan.pipeline
        for fanned in step.apply(first, value):
            level = [fanned]
            for operation in rest:
                level = [result for item in level for result in step.apply(operation, item)]
            yield from level

    def _init_scope(self) -> dict[str, Any]:
        known = (self.identity, self.plan.init)
        if known not in _init_scopes:
            scope: dict[str, Any] = {"context": {"app": self.app}}
            _init_scopes[known] = self.plan.init.run(scope) if self.plan.init is not None else scope
        return _init_scopes[known]


@dataclass(frozen=True, slots=True)
class _Step:
    """Operations applied within one event."""

    executor: Executor
    scope: dict[str, Any]
    timestamp: datetime | None
    effects: list[Effect]

    def apply(self, operation: OperationPlan, value: Any) -> Iterator[Any]:
        """The values an operation hands on."""
        tables = {p.parameter: self._table(p.table) for p in operation.tables}
        if operation.send is not None:
            yield from self._topic_send(operation.send, value, tables)
        elif operation.function is not None:
            # A copy of the scope for every value: names an operation sets at its top level start anew each time.
            function = operation.function.function(dict(self.scope))
            result = call(function, value, tables)
            if operation.kind == "map":
                yield from fan_out(result)
            elif result:
                yield value

    def send(self, plan: SendPlan, value: Any, offered: Mapping[str, Any]) -> Effect | None:
        """Put a value on a topic, unless its predicate declines."""
        effect = send(plan, value, offered, self.executor.topics, self.timestamp)
        if effect is None:
            return None
        table = self.executor.topics.changelogs.get(effect.target)
        if table is None:
            self.effects.append(effect)
        else:
            self._write(table, *table_write(effect, table))
        return effect

    def _write(self, table: TablePlan, key: str, value: str | None) -> None:
        """What was sent to a changelog: in order with the agent's own writes, where it has the table."""
        state: Any = self.executor.tables.get(table.name)
        if state is not None:
            state.put(key, value)
            return
        data = None if value is None else value.encode()
        self.effects.append(Effect("write", table.name, key.encode(), data, None, self.timestamp))

    def _topic_send(self, plan: SendPlan, value: Any, tables: Mapping[str, Any]) -> Iterator[Any]:
        effect = self.send(plan, value, tables)
        if effect is None or not plan.ack:
            if plan.pass_through:
                yield value
            return
        metadata = self._metadata(effect)
        yield (value, metadata) if plan.pass_through else metadata

    def _metadata(self, effect: Effect) -> dict[str, Any]:
        """What Kafka tells of a record that was sent; the offset is -1, for the batch has not been committed yet."""
        return {
            "topic": effect.target,
            "partition": effect.partition,
            "topic_partition": (effect.target, effect.partition),
            "offset": -1,
            "timestamp": None if effect.timestamp is None else effect.timestamp.timestamp(),
            "timestamp_type": 0,
        }

    def _table(self, name: str) -> Table | WindowedTable:
        state: Any = self.executor.tables[name]
        default = None if state.plan.default is None else call(in_empty_scope(state.plan.default), None, {})
        if state.plan.default is not None and not isinstance(default, type):
            msg = f"defaultSelector of table {name!r} must return a class, such as int or dict, not {default!r}"
            raise TypeError(msg)
        clock = self.executor.clocks.get(name)
        read_only = self.executor.read_only
        if clock is None:
            return Table(state, default, read_only=read_only)
        return WindowedTable(state, clock, default, read_only=read_only)


def _dead_letter(record: InputRecord, detail: str) -> Effect:
    return _letter(record.source, record.key, record.value, record.timestamp, detail)


def _letter(source: str, key: bytes | None, value: bytes | None, at: datetime | None, detail: str) -> Effect:
    problem = {"reason": "event failed", "detail": detail, "value": None}
    return Effect("dead-letter", source, key, value, None, at, None, problem)
