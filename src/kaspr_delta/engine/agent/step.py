"""One operation after another within one event: what it hands on, and what it sends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from kaspr_delta.engine.agent.changelog import table_write
from kaspr_delta.engine.agent.effect import Effect
from kaspr_delta.engine.agent.output import Topics, send
from kaspr_delta.engine.agent.table_state import AnyState
from kaspr_delta.functions.call import GENERATORS, call, fan_out
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.definition import OperationPlan, SendPlan, TablePlan


class Around(Protocol):
    """What operations need of the executor that runs them."""

    topics: Topics
    tables: Mapping[str, AnyState]

    def function(self, snippet: Snippet, context: dict[str, Any]) -> Callable[..., Any]:
        """The function of an operation, in the scope of ``init`` and the current event."""
        ...

    def table(self, name: str) -> Any:
        """A table as functions get it."""
        ...


@dataclass(slots=True)
class Step:
    """Operations applied within one event. Its sends are added to ``effects``."""

    executor: Around
    context: dict[str, Any]
    timestamp: datetime | None
    effects: list[Effect]

    def apply(self, operation: OperationPlan, value: Any) -> Iterator[Any]:
        """The values an operation hands on."""
        tables = {p.parameter: self.executor.table(p.table) for p in operation.tables}
        if operation.send is not None:
            yield from self._topic_send(operation.send, value, tables)
        elif operation.function is not None:
            result = call(self.executor.function(operation.function, self.context), value, tables)
            if operation.kind == "filter":
                if result:
                    yield value
            elif type(result) in GENERATORS:
                yield from fan_out(result)
            else:
                yield result

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
