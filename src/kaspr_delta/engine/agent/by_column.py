"""The quick way through a pipeline, for agents whose functions ask for nothing but the value.

Keys, values and times stay columns: no record, event or effect is made an object. An event that is out of the ordinary
(an exception, a result that fans out or is awaited, too much time) is left to the executor: its functions are called
once more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from types import CoroutineType
from typing import Any, NamedTuple

import pyarrow as pa

from kaspr_delta.engine.agent.effect import columns_to_arrow, to_arrow
from kaspr_delta.engine.agent.event import TopicDecoder
from kaspr_delta.engine.agent.executor import Executor
from kaspr_delta.engine.agent.input_rows import records_of
from kaspr_delta.functions.call import PLAIN, awaited, bind
from kaspr_delta.functions.failure import AUTHORS_CODE_FAILED
from kaspr_delta.functions.snippet import in_empty_scope
from kaspr_delta.functions.time_limit import at_most
from kaspr_delta.plan.definition import OperationPlan, SendPlan
from kaspr_delta.serde.serializers import encode_key, encoder


class _Output(NamedTuple):
    """A send without a choice: its topic, what makes bytes of a value, and what makes a key of it."""

    topic: str
    encode: Callable[[Any], bytes]
    key: Callable[[Any], bytes | None] | None


@dataclass(slots=True)
class _Sends:
    """Columns of sends; ``events`` are the places of their events in the Arrow batch."""

    topics: list[str] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    partitions: list[int] = field(default_factory=list)
    events: list[int] = field(default_factory=list)

    def cut(self, length: int) -> None:
        """Forget all after so many."""
        for column in (self.topics, self.keys, self.values, self.partitions, self.events):
            del column[length:]


class ByColumn:
    """Arrow batches of input records to Arrow batches of effects."""

    def __init__(self, executor: Executor, decoder: TopicDecoder) -> None:
        self._executor = executor
        self._decoder = decoder
        self._limit = at_most(executor.timeout)
        self._outputs = [_output(plan) for plan in executor.plan.outputs]
        # What the operations are: whether they filter, and their functions.
        self._steps: list[tuple[bool, Callable[[Any], Any]]] | None = None

    @classmethod
    def of(cls, executor: Executor) -> ByColumn | None:
        """The quick way, where it is one for the executor's agent."""
        plan, changelogs = executor.plan, executor.topics.changelogs
        if plan.take is not None or not isinstance(executor.decoder, TopicDecoder):
            return None
        if not all(output.is_plain and output.topic not in changelogs for output in plan.outputs):
            return None
        return cls(executor, executor.decoder) if all(map(_asks_for_the_value, plan.pipeline)) else None

    def effects(self, batch: pa.RecordBatch, seq: int) -> Iterator[pa.RecordBatch]:
        """The effects of a batch, numbered from ``seq``."""
        sends, keys, values = _Sends(), batch.column("key").to_pylist(), batch.column("value").to_pylist()
        event = 0
        while event < batch.num_rows:
            event, ordinary = self._run(event, keys, values, sends)
            if not ordinary:
                yield from self._rows(sends, batch, seq)
                seq += len(sends.events)
                sends = _Sends()
                (record,) = records_of(batch.slice(event, 1))
                effects = to_arrow(self._executor.process(record), seq)
                yield effects
                seq += effects.num_rows
                event += 1
        yield from self._rows(sends, batch, seq)

    def _run(
        self, first: int, keys: Sequence[bytes | None], values: Sequence[bytes | None], sends: _Sends
    ) -> tuple[int, bool]:
        """Add what events send, from the first on, until one is out of the ordinary or much time has passed.

        The next event, and whether it is an ordinary one as far as is known.
        """
        event, partition = first, self._executor.topics.partition
        decode_key, decode = self._decoder.key, self._decoder.value
        enough = monotonic() + self._executor.timeout / 2
        try:
            with self._limit:
                steps = self._steps = self._steps or self._functions()
                for event in range(first, len(values)):
                    if monotonic() > enough:
                        return event, True
                    key, data = keys[event], values[event]
                    if key is not None:
                        decode_key(key)  # what nobody can read is a dead letter, whether or not a function asks for it
                    value = None if data is None else decode(data)
                    for filters, function in steps:
                        result = function(value)
                        if type(result) not in PLAIN:
                            raise _more_than_a_value(result)
                        if not filters:
                            value = result
                        elif not result:
                            break
                    else:
                        for topic, encode, key_of in self._outputs:
                            key = None if key_of is None else key_of(value)
                            sends.values.append(None if value is None else encode(value))
                            sends.keys.append(key)
                            sends.topics.append(topic)
                            sends.partitions.append(0 if key is None else partition(topic, key))
                            sends.events.append(event)
        except AUTHORS_CODE_FAILED:
            sends.cut(bisect_left(sends.events, event))
            self._steps = None  # `init` may have to run anew
            return event, False
        return len(values), True

    def _functions(self) -> list[tuple[bool, Callable[[Any], Any]]]:
        return [(plan.kind == "filter", self._function(plan)) for plan in self._executor.plan.pipeline]

    def _function(self, plan: OperationPlan) -> Callable[[Any], Any]:
        if plan.function is None:
            msg = f"operation {plan.name!r} has no function"
            raise TypeError(msg)
        return bind(plan.function.function({**self._executor.scope(), "context": {}}), {})

    @staticmethod
    def _rows(sends: _Sends, batch: pa.RecordBatch, seq: int) -> Iterator[pa.RecordBatch]:
        count = len(sends.events)
        if not count:
            return
        columns = {
            "kind": pa.repeat("send", count),
            "target": sends.topics,
            "key": sends.keys,
            "value": sends.values,
            "timestamp": batch.column("timestamp").take(pa.array(sends.events)),
            "partition": sends.partitions,
        }
        yield columns_to_arrow(columns, count, seq)


class _MoreThanAValueError(Exception):
    """A function returned what is awaited, or fans out."""


def _more_than_a_value(result: Any) -> _MoreThanAValueError:
    if isinstance(result, CoroutineType):
        result.close()  # another one will be awaited
    return _MoreThanAValueError(type(result).__name__)


def _asks_for_the_value(plan: OperationPlan) -> bool:
    """Whether an operation is a function that can be called with the value, and nobody can tell from where."""
    function = plan.function
    return function is not None and not plan.tables and function.remembers_nothing and not function.may_use("context")


def _output(plan: SendPlan) -> _Output:
    if plan.topic is None:
        msg = "a plain send has a topic"
        raise ValueError(msg)
    encode = encoder(plan.serializers.value)
    if plan.key_selector is None:
        return _Output(plan.topic, encode, None)
    select, name = bind(in_empty_scope(plan.key_selector), {}), plan.serializers.key
    return _Output(plan.topic, encode, lambda value: encode_key(name, awaited(select(value))))
