"""The quick way through a pipeline, for agents whose functions ask for nothing but the value.

Keys, values and times stay columns: no record, event or effect is made an object. Whatever is out of the ordinary (an
exception, a result that fans out or is awaited, an event that takes too long) is left to the executor, which takes the
events of its chunk one by one; functions are called once more for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CoroutineType
from typing import Any, NamedTuple

import pyarrow as pa

from kaspr_delta.engine.agent.effect import SCHEMA, to_arrow
from kaspr_delta.engine.agent.event import TopicDecoder
from kaspr_delta.engine.agent.executor import Executor
from kaspr_delta.engine.agent.input_rows import records_of
from kaspr_delta.functions.call import PLAIN, awaited, bind
from kaspr_delta.functions.failure import AUTHORS_CODE_FAILED
from kaspr_delta.functions.snippet import in_empty_scope
from kaspr_delta.functions.time_limit import at_most
from kaspr_delta.plan.definition import OperationPlan, SendPlan
from kaspr_delta.serde.serializers import encode_key, encoder

# So many events are done once more when one of them is out of the ordinary.
_CHUNK = 500


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
        for first in range(0, batch.num_rows, _CHUNK):
            before, last = len(sends.events), min(first + _CHUNK, batch.num_rows)
            if self._runs(range(first, last), keys, values, sends):
                continue
            sends.cut(before)
            yield from self._rows(sends, batch, seq)
            seq += before
            records = records_of(batch.slice(first, last - first))
            effects = [effect for record in records for effect in self._executor.process(record)]
            yield to_arrow(effects, seq)
            seq += len(effects)
            sends = _Sends()
        yield from self._rows(sends, batch, seq)

    def _runs(self, *chunk: Any) -> bool:
        """Whether all goes well with a chunk; if not, ``init`` may have to run anew."""
        try:
            with self._limit:
                self._run(*chunk)
        except AUTHORS_CODE_FAILED:
            self._steps = None
            return False
        return True

    def _run(
        self, events: Iterable[int], keys: Sequence[bytes | None], values: Sequence[bytes | None], sends: _Sends
    ) -> None:
        """Add what events send. Raises what their functions raise, and _MoreThanAValueError."""
        if self._steps is None:
            self._steps = [(plan.kind == "filter", self._function(plan)) for plan in self._executor.plan.pipeline]
        decode_key, decode, steps = self._decoder.key, self._decoder.value, self._steps
        partition = self._executor.topics.partition
        for event in events:
            key, data = keys[event], values[event]
            if key is not None:
                decode_key(key)  # a record whose key nobody can read fails, whether or not a function asks for it
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
            "kind": pa.repeat(pa.scalar("send"), count),
            "target": pa.array(sends.topics, pa.string()),
            "key": pa.array(sends.keys, pa.binary()),
            "value": pa.array(sends.values, pa.binary()),
            "timestamp": batch.column("timestamp").cast(SCHEMA.field("timestamp").type).take(pa.array(sends.events)),
            "partition": pa.array(sends.partitions, pa.int32()),
            "seq": pa.array(range(seq, seq + count), pa.int64()),
        }
        arrays = [columns[of.name] if of.name in columns else pa.nulls(count, of.type) for of in SCHEMA]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


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
