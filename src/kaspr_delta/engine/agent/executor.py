"""One event through one agent: pipeline, outputs, and what happens when the author's code fails.

The same class runs in Spark's Python workers (agents without tables) and where the batch is handled (agents with
tables).
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kaspr_delta.engine.agent.effect import Effect
from kaspr_delta.engine.agent.event import App, Decoder, InputRecord
from kaspr_delta.engine.agent.output import Partitions, send
from kaspr_delta.engine.agent.tables import Table, TableState
from kaspr_delta.functions.call import call, fan_out
from kaspr_delta.functions.failure import account_of_failure
from kaspr_delta.functions.snippet import Snippet, in_empty_scope
from kaspr_delta.plan.definition import AgentPlan, OperationPlan, SendPlan

# What `init` made, once per process: it may be costly, and what it holds need not be picklable.
_init_scopes: dict[tuple[str, Snippet | None], dict[str, Any]] = {}


@dataclass
class AgentExecutor:
    """Runs events of one agent, one after another.

    ``tables`` holds, by table name, the state of the tables that the agent's operations declare. ``identity`` tells
    this agent from those of the same name in other warehouses.
    """

    identity: str
    agent: AgentPlan
    app: App
    decoder: Decoder
    partitions: Partitions
    tables: Mapping[str, TableState] = field(default_factory=dict)

    def process(self, record: InputRecord) -> list[Effect]:
        """The sends of one event; its table writes are kept in ``tables``.

        An event that fails leaves neither: its one effect is a dead letter. ``init`` then runs anew for the next event.
        """
        effects: list[Effect] = []
        try:
            self._run(record, effects)
        except (Exception, SystemExit, CancelledError):  # noqa: BLE001  the author's code may raise anything
            _init_scopes.pop((self.identity, self.agent.init), None)
            for state in self.tables.values():
                state.drop()
            return [_dead_letter(record, account_of_failure(frames=4))]
        for state in self.tables.values():
            state.keep(record.timestamp)
        return effects

    def _run(self, record: InputRecord, effects: list[Effect]) -> None:
        event = self.decoder(record)
        scope = {**self._init_scope(), "context": {"app": self.app, "event": event}}
        step = _Step(self, scope, record, effects)
        for value in self._final_values(step, event.value):
            for output in self.agent.outputs:
                step.send(output, value, {})

    def _final_values(self, step: _Step, value: Any) -> Iterator[Any]:
        """What comes out of the pipeline: depth-first by the values of its first operation, then level by level."""
        if not self.agent.pipeline:
            yield value
            return
        first, *rest = self.agent.pipeline
        for fanned in step.apply(first, value):
            level = [fanned]
            for operation in rest:
                level = [result for item in level for result in step.apply(operation, item)]
            yield from level

    def _init_scope(self) -> dict[str, Any]:
        known = (self.identity, self.agent.init)
        if known not in _init_scopes:
            scope: dict[str, Any] = {"context": {"app": self.app}}
            _init_scopes[known] = self.agent.init.run(scope) if self.agent.init is not None else scope
        return _init_scopes[known]


@dataclass(frozen=True, slots=True)
class _Step:
    """Operations applied within one event."""

    executor: AgentExecutor
    scope: dict[str, Any]
    record: InputRecord
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
        effect = send(plan, value, offered, self.executor.partitions, self.record.timestamp)
        if effect is not None:
            self.effects.append(effect)
        return effect

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

    def _table(self, name: str) -> Table:
        state = self.executor.tables[name]
        default = None if state.plan.default is None else call(in_empty_scope(state.plan.default), None, {})
        if state.plan.default is not None and not isinstance(default, type):
            msg = f"defaultSelector of table {name!r} must return a class, such as int or dict, not {default!r}"
            raise TypeError(msg)
        return Table(state, default)


def _dead_letter(record: InputRecord, detail: str) -> Effect:
    problem = {"reason": "event failed", "detail": detail, "value": None}
    return Effect("dead-letter", record.source, record.key, record.value, None, record.timestamp, None, problem)
