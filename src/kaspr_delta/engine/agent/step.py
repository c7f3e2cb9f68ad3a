"""The operations of one event, one after another: the values they hand on, and the records they send.

A record sent to the changelog of a table is written to the table, as in Kafka. So a table can be filled before any
agent runs, and an agent can write a table that it does not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kaspr_delta.engine.agent.table_state import TableState
from kaspr_delta.engine.streams.effect import Effect
from kaspr_delta.engine.streams.output import Topics, send
from kaspr_delta.errors import SerializationError
from kaspr_delta.functions.call import PLAIN, awaited, bind, fan_out
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.definition.resources import OperationPlan, SendPlan, TablePlan
from kaspr_delta.serde.serializers import decode
from kaspr_delta.serde.typed_text import text_of


@dataclass(slots=True)
class CompiledOperation:
    """An operation with its tables, for all events of an executor.

    The source of its function is executed again for every value, so names at its top level start fresh each time. A
    source that keeps nothing between calls is executed once, with the same results. ``scope`` returns the names of
    ``init``, which functions see.
    """

    plan: OperationPlan
    tables: Mapping[str, Any]
    scope: Callable[[], dict[str, Any]]
    _bound: Callable[[Any], Any] | None = field(default=None, init=False)
    _globals: dict[str, Any] = field(default_factory=dict, init=False)

    def apply(self, step: Step, value: Any) -> Iterable[Any]:
        """The values that the operation hands on. Only a result's type decides whether it fans out: see ``fan_out``."""
        plan = self.plan
        if plan.function is None:
            return () if plan.send is None else step.topic_send(plan.send, value, self.tables)
        function = self._bound
        if function is None:
            function = self.execute(plan.function, step.context)
        else:
            self._globals["context"] = step.context
        result = function(value)
        if type(result) not in PLAIN:
            result = awaited(result)
            if plan.kind != "filter":
                return fan_out(result)
        if plan.kind == "filter":
            return (value,) if result else ()
        return (result,)

    def execute(self, snippet: Snippet, context: dict[str, Any]) -> Callable[[Any], Any]:
        """The function with its tables bound, to be called with the value."""
        function = snippet.function({**self.scope(), "context": context})
        bound = bind(function, self.tables)
        if snippet.remembers_nothing:
            self._bound, self._globals = bound, function.__globals__
        return bound


@dataclass(slots=True)
class Step:
    """The state that the operations of one event share. Sends get ``timestamp`` and are added to ``effects``."""

    topics: Topics
    tables: Mapping[str, TableState]
    context: dict[str, Any] = field(default_factory=dict)
    timestamp: int | None = None
    effects: list[Effect] = field(default_factory=list)

    def begin(self, context: dict[str, Any], timestamp: int | None) -> list[Effect]:
        """Begin the next event; return the list to which its effects will be added."""
        self.context, self.timestamp = context, timestamp
        self.effects = []
        return self.effects

    def send(self, plan: SendPlan, value: Any, offered: Mapping[str, Any]) -> Effect | None:
        """Send a value to a topic; None if the predicate declines. A send to a changelog writes the table."""
        effect = send(plan, value, offered, self.topics, self.timestamp)
        if effect is None:
            return None
        table = self.topics.changelogs.get(effect.target)
        if table is None:
            self.effects.append(effect)
            return effect
        key, text = table_write(effect, table)
        state = self.tables.get(table.name)
        if state is not None:  # in order with the agent's own writes
            state.put(key, text)
        else:
            data = None if text is None else text.encode()
            self.effects.append(Effect("write", table.name, key.encode(), data, None, self.timestamp))
        return effect

    def topic_send(self, plan: SendPlan, value: Any, tables: Mapping[str, Any]) -> Iterator[Any]:
        """The values that a ``topicSend`` hands on: the value, the record's metadata as in Kafka, both or nothing."""
        effect = self.send(plan, value, tables)
        if effect is None or not plan.ack:
            if plan.pass_through:
                yield value
            return
        metadata = {
            "topic": effect.target,
            "partition": effect.partition,
            "topic_partition": (effect.target, effect.partition),
            "offset": -1,  # the batch is not committed yet
            "timestamp": None if effect.timestamp is None else effect.timestamp / 1_000_000,
            "timestamp_type": 0,
        }
        yield (value, metadata) if plan.pass_through else metadata


def table_write(record: Effect, table: TablePlan) -> tuple[str, str | None]:
    """The row of a changelog record: the texts of its key and of its value (None for a tombstone).

    The bytes are decoded with the table's serializers. Raises SerializationError for bytes that cannot be decoded, for
    a record without a key, for a table with windows, whose rows need more than a key, and for a foreign table.
    """
    if table.refusal is not None:
        raise SerializationError(table.refusal)
    text = text_of(table)
    key = decode(table.serializers.key, record.key)
    return text.key(key), text.row(key, decode(table.serializers.value, record.value))
