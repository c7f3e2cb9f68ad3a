"""The quick way through a pipeline, for agents whose functions ask for nothing but the value and tables.

Keys, values and times stay columns: no record, event or effect is made an object. An event that fails is a dead
letter, as in the executor. One that cannot be read, or of which something comes out that fans out or is awaited
although nothing told so, is left to the executor; so is one that took too long where others had used some of its time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from types import CoroutineType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kaspr_delta.engine.agent.executor import Executor
from kaspr_delta.engine.streams.effect import Effect, EventFailedError, columns_to_arrow, numbered
from kaspr_delta.engine.streams.event import TopicDecoder
from kaspr_delta.engine.streams.input_rows import records_of
from kaspr_delta.errors import SerializationError
from kaspr_delta.functions.call import PLAIN, awaited, bind
from kaspr_delta.functions.failure import AUTHORS_CODE_FAILED, account_of_failure
from kaspr_delta.functions.snippet import in_empty_scope
from kaspr_delta.functions.time_limit import EventTimeoutError, at_most
from kaspr_delta.plan.definition.resources import OperationPlan, SendPlan
from kaspr_delta.serde.serializers import encode_key, encoder


class _Output:
    """A send without a choice, and the columns of what events send that way."""

    __slots__ = ("encode", "key_of", "keys", "topic", "values")

    def __init__(self, plan: SendPlan) -> None:
        if plan.topic is None:
            msg = "a plain send has a topic"
            raise ValueError(msg)
        self.topic = plan.topic
        self.encode = encoder(plan.serializers.value)
        self.key_of = _key_of(plan)
        self.values: list[bytes | None] = []
        self.keys: list[bytes | None] = []

    def cut(self, count: int) -> None:
        """Forget all records after so many."""
        del self.values[count:], self.keys[count:]


class ByColumn:
    """Arrow batches of input records to Arrow batches of effects.

    What events write to tables is kept there, as the executor does.
    """

    def __init__(self, executor: Executor, decoder: TopicDecoder) -> None:
        self._executor = executor
        self._decoder = decoder
        self._limit = at_most(executor.timeout)
        self._tables = list(executor.tables.values())
        self._outputs = [_Output(plan) for plan in executor.plan.outputs]
        # The places in the Arrow batch of the events that these outputs are of.
        self._sent: list[int] = []
        # Why the last event failed, if it did.
        self._account: str | None = None
        # What the operations are: whether they filter, and their functions.
        self._steps: list[tuple[bool, Callable[[Any], Any]]] | None = None

    @classmethod
    def of(cls, executor: Executor) -> ByColumn | None:
        """The quick way, where it is one for the executor's agent."""
        decoder = executor.decoder
        return cls(executor, decoder) if is_by_column(executor) and isinstance(decoder, TopicDecoder) else None

    def effects(self, batch: pa.RecordBatch, seq: int) -> Iterator[pa.RecordBatch]:
        """The effects of a batch, numbered from ``seq``."""
        values: list[bytes | None] = batch.column("value").to_pylist()
        times = self._times(batch)
        stops = [*self._unreadable(batch.column("key")), len(values)]
        # Numbers of the first record of each event that was sent, and of what the executor did with the others.
        sent: list[int] = []
        others: list[Effect] = []
        numbers: list[int] = []
        event = 0
        while event < len(values):
            stop = stops[bisect_left(stops, event)]
            event, ordinary = self._run(event, stop, values, times)
            if ordinary and not event == stop < len(values):
                continue
            seq = self._number(sent, seq)
            (record,) = records_of(batch.slice(event, 1))
            account, self._account = self._account, None
            effects = self._executor.process(record) if account is None else self._executor.given_up([record], account)
            others += effects
            numbers.extend(range(seq, seq + len(effects)))
            seq += len(effects)
            event += 1
        self._number(sent, seq)
        yield from self._rows(batch, pa.array(sent, pa.int64()))
        if others:
            yield numbered(others, numbers)

    def sends(self, batch: pa.RecordBatch, numbers: pa.Array) -> Iterator[pa.RecordBatch]:
        """The sends of a batch of ordinary events, numbered from the number of each. Raises EventFailedError."""
        values, times, event, ordinary = batch.column("value").to_pylist(), self._times(batch), 0, True
        while ordinary and event < len(values):
            event, ordinary = self._run(event, len(values), values, times)
        if not ordinary or self._unreadable(batch.column("key")):
            raise EventFailedError
        yield from self._rows(batch, numbers.take(pa.array(self._sent, pa.int64())))

    def _times(self, batch: pa.RecordBatch) -> list[int | None]:
        """The times of events, where they are asked for."""
        return batch.column("timestamp").cast(pa.int64()).to_pylist() if self._tables else []

    def _number(self, numbers: list[int], seq: int) -> int:
        """Number, from ``seq`` on, the events that were sent since; the next number."""
        every, since = len(self._outputs), len(self._sent) - len(numbers)
        if every:
            numbers.extend(range(seq, seq + since * every, every))
        return seq + since * every

    def _unreadable(self, keys: pa.Array) -> list[int]:
        """The places of keys that nobody can read: dead letters, whether or not a function asks for keys."""
        coded = keys.dictionary_encode()
        unreadable = set()
        for code, key in enumerate(coded.dictionary.to_pylist()):
            try:
                self._decoder.key(key)
            except SerializationError:
                unreadable.add(code)
        places = enumerate(coded.indices.to_pylist()) if unreadable else ()
        return [place for place, code in places if code in unreadable]

    def _run(
        self, first: int, stop: int, values: Sequence[bytes | None], times: Sequence[int | None]
    ) -> tuple[int, bool]:
        """Process events, from the first on, until one is out of the ordinary or much time has passed.

        The next event, and whether it is an ordinary one as far as is known.
        """
        event, ended, tables = first, first - 1, self._tables
        enough = monotonic() + self._executor.timeout / 2
        try:
            with self._limit:
                process = self._process(values)
                for event in range(first, stop):
                    if monotonic() > enough:
                        return event, True
                    process(event)
                    ended = event
                    for table in tables:
                        table.keep(times[event])
        except AUTHORS_CODE_FAILED as error:
            if ended != event:
                self._undo(event, error)
                return event, False
            # The time was over when the event had ended: its writes stand together, or not at all.
            for table in tables:
                table.keep(times[event])
            return event + 1, True
        return stop, True

    def _undo(self, event: int, error: BaseException) -> None:
        """Nothing of an event stands; it failed for good, unless it is left to the executor."""
        if not isinstance(error, _LEFT_TO_EXECUTOR):
            self._account = account_of_failure(frames=4)
        del self._sent[bisect_left(self._sent, event) :]
        for output in self._outputs:
            output.cut(len(self._sent))
        for table in self._tables:
            table.drop()
        self._steps = None  # `init` may have to run anew

    def _process(self, values: Sequence[bytes | None]) -> Callable[[int], None]:
        """What takes the event at a place through the pipeline to the outputs."""
        steps = self._steps = self._steps or self._functions()
        decode, outputs, sent = self._decoder.value, self._outputs, self._sent.append

        def process(event: int) -> None:
            data = values[event]
            try:
                value = None if data is None else decode(data)
            except SerializationError:
                raise _UnreadableError from None
            for filters, function in steps:
                result = function(value)
                if type(result) not in PLAIN:
                    raise _more_than_a_value(result)
                if not filters:
                    value = result
                elif not result:
                    return
            for output in outputs:
                if output.key_of is not None:
                    output.keys.append(output.key_of(value))
                output.values.append(None if value is None else output.encode(value))
            sent(event)

        return process

    def _functions(self) -> list[tuple[bool, Callable[[Any], Any]]]:
        return [(plan.kind == "filter", self._function(plan)) for plan in self._executor.plan.pipeline]

    def _function(self, plan: OperationPlan) -> Callable[[Any], Any]:
        if plan.function is None:
            msg = f"operation {plan.name!r} has no function"
            raise TypeError(msg)
        tables = {of.parameter: self._executor.table(of.table) for of in plan.tables}
        return bind(plan.function.function({**self._executor.scope(), "context": {}}), tables)

    def _rows(self, batch: pa.RecordBatch, numbers: pa.Array) -> Iterator[pa.RecordBatch]:
        """What was sent, output by output."""
        count, partition = len(self._sent), self._executor.topics.partition
        times = batch.column("timestamp")
        if count < batch.num_rows:
            times = times.take(pa.array(self._sent, pa.int64()))
        for place, output in enumerate(self._outputs if count else ()):
            columns = {
                "kind": pa.repeat("send", count),
                "target": pa.repeat(output.topic, count),
                "value": output.values,
                "timestamp": times,
                "partition": pa.repeat(0, count),
            }
            if output.key_of is not None:
                columns["key"] = output.keys
                columns["partition"] = [partition(output.topic, key) for key in output.keys]
            yield columns_to_arrow(columns, pc.add(numbers, place) if place else numbers)
            output.cut(0)
        self._sent.clear()


class _UnreadableError(Exception):
    """The value of an event cannot be decoded: no function was called."""


class _MoreThanAValueError(Exception):
    """A function returned what is awaited, or fans out."""


_LEFT_TO_EXECUTOR = (_UnreadableError, _MoreThanAValueError, EventTimeoutError)


def _more_than_a_value(result: Any) -> _MoreThanAValueError:
    if isinstance(result, CoroutineType):
        result.close()  # another one will be awaited
    return _MoreThanAValueError(type(result).__name__)


def is_by_column(executor: Executor) -> bool:
    """Whether the quick way is one for the executor's agent: then nobody asks for more than keys, values and times."""
    plan, changelogs = executor.plan, executor.topics.changelogs
    if plan.take is not None or executor.clocks or not isinstance(executor.decoder, TopicDecoder):
        return False
    if not all(output.is_plain and output.topic not in changelogs for output in plan.outputs):
        return False
    return all(map(_asks_for_the_value, plan.pipeline))


def _asks_for_the_value(plan: OperationPlan) -> bool:
    """Whether an operation is a function that is given the value and tables, and nobody can tell from where."""
    function = plan.function
    if function is None or not function.returns:
        return False
    return function.remembers_nothing and not function.may_use("context")


def _key_of(plan: SendPlan) -> Callable[[Any], bytes | None] | None:
    """What makes a key of a value."""
    if plan.key_selector is None:
        return None
    select, name = bind(in_empty_scope(plan.key_selector), {}), plan.serializers.key
    return lambda value: encode_key(name, awaited(select(value)))
