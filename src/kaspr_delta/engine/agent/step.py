"""One operation after another within one event: what it hands on, and what it sends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from kaspr_delta.engine.agent.changelog import table_write
from kaspr_delta.engine.agent.effect import Effect
from kaspr_delta.engine.agent.output import Topics, send
from kaspr_delta.engine.agent.table_state import AnyState
from kaspr_delta.functions.call import GENERATORS, awaited, bind, fan_out
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.definition import OperationPlan, SendPlan, TablePlan


class Around(Protocol):
    """What operations need of the executor that runs them."""

    topics: Topics
    tables: Mapping[str, AnyState]


class Operation:
    """An operation with the tables it is given, for all events of an executor.

    Its function is executed anew for every value: names it sets at its top level start anew each time. One that sets
    none is executed once, which nobody can tell. ``scope`` makes what functions see: names of ``init``.
    """

    __slots__ = ("_bound", "_globals", "_scope", "plan", "tables")

    def __init__(self, plan: OperationPlan, tables: Mapping[str, Any], scope: Callable[[], dict[str, Any]]) -> None:
        self.plan = plan
        self.tables = tables
        self._scope = scope
        self._bound: Callable[[Any], Any] | None = None
        self._globals: dict[str, Any] = {}

    def function(self, snippet: Snippet, context: dict[str, Any]) -> Callable[[Any], Any]:
        """What is left to be given the value."""
        if self._bound is not None:
            self._globals["context"] = context
            return self._bound
        function = snippet.function({**self._scope(), "context": context})
        bound = bind(function, self.tables)
        if snippet.remembers_nothing:
            self._bound, self._globals = bound, function.__globals__
        return bound


@dataclass(slots=True)
class Step:
    """Operations applied within one event. Its sends are added to ``effects``."""

    executor: Around
    context: dict[str, Any]
    timestamp: datetime | None
    effects: list[Effect]

    def apply(self, operation: Operation, value: Any) -> Iterable[Any]:
        """The values an operation hands on."""
        plan = operation.plan
        if plan.function is None:
            return () if plan.send is None else self._topic_send(plan.send, value, operation.tables)
        result = awaited(operation.function(plan.function, self.context)(value))
        if plan.kind == "filter":
            return (value,) if result else ()
        return fan_out(result) if type(result) in GENERATORS else (result,)

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
