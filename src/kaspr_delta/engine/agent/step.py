"""The operations of one event, one after another: the values they hand on, and the records they send."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kaspr_delta.engine.agent.changelog import table_write
from kaspr_delta.engine.agent.table_state import AnyState
from kaspr_delta.engine.streams.effect import Effect
from kaspr_delta.engine.streams.output import Topics, send
from kaspr_delta.functions.call import GENERATORS, PLAIN, awaited, bind, fan_out
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.definition.resources import OperationPlan, SendPlan, TablePlan


class Operation:
    """An operation with its tables, for all events of an executor.

    The source of its function is executed again for every value, so names at its top level start fresh each time. A
    source that keeps nothing between calls is executed once, with the same results. ``scope`` returns the names of
    ``init``, which functions see.
    """

    __slots__ = ("_bound", "_globals", "_plan", "_scope", "_tables")

    def __init__(self, plan: OperationPlan, tables: Mapping[str, Any], scope: Callable[[], dict[str, Any]]) -> None:
        self._plan = plan
        self._tables = tables
        self._scope = scope
        self._bound: Callable[[Any], Any] | None = None
        self._globals: dict[str, Any] = {}

    def apply(self, step: Step, value: Any) -> Iterable[Any]:
        """The values that the operation hands on. Only a result's type decides whether it fans out: see ``fan_out``."""
        plan = self._plan
        if plan.function is None:
            return () if plan.send is None else step.topic_send(plan.send, value, self._tables)
        function = self._bound
        if function is None:
            function = self._execute(plan.function, step.context)
        else:
            self._globals["context"] = step.context
        result = function(value)
        if type(result) not in PLAIN:
            result = awaited(result)
            if type(result) in GENERATORS and plan.kind != "filter":
                return fan_out(result)
        if plan.kind == "filter":
            return (value,) if result else ()
        return (result,)

    def _execute(self, snippet: Snippet, context: dict[str, Any]) -> Callable[[Any], Any]:
        """The function with its tables bound, to be called with the value."""
        function = snippet.function({**self._scope(), "context": context})
        bound = bind(function, self._tables)
        if snippet.remembers_nothing:
            self._bound, self._globals = bound, function.__globals__
        return bound


class Step:
    """The state that the operations of one event share. Sends get ``timestamp`` and are added to ``effects``."""

    __slots__ = ("_changelogs", "_tables", "_topics", "context", "effects", "timestamp")

    def __init__(self, topics: Topics, tables: Mapping[str, AnyState]) -> None:
        self._topics = topics
        self._tables = tables
        self._changelogs = topics.changelogs
        self.context: dict[str, Any] = {}
        self.timestamp: int | None = None
        self.effects: list[Effect] = []

    def begin(self, context: dict[str, Any], timestamp: int | None) -> list[Effect]:
        """Begin the next event; return the list to which its effects will be added."""
        self.context, self.timestamp = context, timestamp
        self.effects = []
        return self.effects

    def send(self, plan: SendPlan, value: Any, offered: Mapping[str, Any]) -> Effect | None:
        """Send a value to a topic; None if the predicate declines. A send to a changelog writes the table."""
        effect = send(plan, value, offered, self._topics, self.timestamp)
        if effect is None:
            return None
        table = self._changelogs.get(effect.target)
        if table is None:
            self.effects.append(effect)
        else:
            self._write(table, *table_write(effect, table))
        return effect

    def _write(self, table: TablePlan, key: str, value: str | None) -> None:
        """Write a changelog record to its table, in order with the agent's own writes if the agent has the table."""
        state: Any = self._tables.get(table.name)
        if state is not None:
            state.put(key, value)
            return
        data = None if value is None else value.encode()
        self.effects.append(Effect("write", table.name, key.encode(), data, None, self.timestamp))

    def topic_send(self, plan: SendPlan, value: Any, tables: Mapping[str, Any]) -> Iterator[Any]:
        """The values that a ``topicSend`` hands on: the value, the record's metadata as in Kafka, both or nothing."""
        effect = self.send(plan, value, tables)
        if effect is None or not plan.ack:
            if plan.pass_through:
                yield value
            return
        metadata = self._metadata(effect)
        yield (value, metadata) if plan.pass_through else metadata

    def _metadata(self, effect: Effect) -> dict[str, Any]:
        """Kafka's metadata of a sent record. The offset is -1, because the batch is not committed yet."""
        return {
            "topic": effect.target,
            "partition": effect.partition,
            "topic_partition": (effect.target, effect.partition),
            "offset": -1,
            "timestamp": None if effect.timestamp is None else effect.timestamp / 1_000_000,
            "timestamp_type": 0,
        }
