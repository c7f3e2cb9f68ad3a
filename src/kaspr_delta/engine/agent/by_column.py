"""The quick way through a pipeline, for agents whose functions use only the value and tables.

Keys, values and times stay columns: no object is made per record, event or effect. An event that fails is a dead
letter, as in the executor. The executor processes an event instead if its key or value cannot be decoded, if a function
returns a result that may be awaitable or fan out, or if the time limit is exceeded (several events share one limit).
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
from kaspr_delta.engine.streams.effect import Effect, EventFailedError, columns_to_arrow, to_arrow
from kaspr_delta.engine.streams.event import TopicDecoder, records_of
from kaspr_delta.errors import SerializationError
from kaspr_delta.functions.call import PLAIN, awaited, bind
from kaspr_delta.functions.failure import AUTHORS_CODE_FAILED, account_of_failure, pass_on_interruption
from kaspr_delta.functions.snippet import in_empty_scope
from kaspr_delta.functions.time_limit import EventTimeoutError, at_most
from kaspr_delta.plan.definition.resources import OperationPlan, SendPlan
from kaspr_delta.serde.serializers import VALUES, encode_key


class _Output:
    """A send to a fixed topic, and the columns of the records that events sent to it."""

    __slots__ = ("encode", "key_of", "keys", "topic", "values")

    def __init__(self, plan: SendPlan) -> None:
        self.topic: Any = plan.topic  # not None: the send is plain
        self.encode = VALUES[plan.serializers.value].encode
        # Set when events are processed: making it runs the author's code, which may fail.
        self.key_of: Callable[[Any], bytes | None] | None = None
        self.values: list[bytes | None] = []
        self.keys: list[bytes | None] = []

    def cut(self, count: int) -> None:
        del self.values[count:], self.keys[count:]


class ByColumn:
    """Turns Arrow batches of input records into Arrow batches of effects, for an executor that ``is_by_column``.

    Table writes are kept in the table states, as in the executor.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._decoder: Any = executor.decoder  # a TopicDecoder
        self._limit = at_most(executor.timeout)
        self._tables = list(executor.tables.values())
        self._outputs = [_Output(plan) for plan in executor.plan.outputs]
        # For each row of the outputs, the index of its event in the Arrow batch.
        self._sent: list[int] = []
        # The account of the last event's failure, if it failed.
        self._account: str | None = None
        # For each operation: whether it is a filter, and its function.
        self._steps: list[tuple[bool, Callable[[Any], Any]]] | None = None

    def effects(self, batch: pa.RecordBatch, seq: int) -> Iterator[pa.RecordBatch]:
        """The effects of a batch, numbered from ``seq``."""
        values: list[bytes | None] = batch.column("value").to_pylist()
        # Only tables need the times.
        times = batch.column("timestamp").cast(pa.int64()).to_pylist() if self._tables else []
        stops = [*self._unreadable(batch.column("key")), len(values)]
        # The number of the first record of each event that was sent, and the executor's effects with their numbers.
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
            yield to_arrow(others, numbers)

    def sends(self, batch: pa.RecordBatch, numbers: pa.Array) -> Iterator[pa.RecordBatch]:
        """The sends of a batch, without tables; ``numbers`` has the first number of each event's sends.

        Raises EventFailedError if an event is not ordinary.
        """
        values, event, ordinary = batch.column("value").to_pylist(), 0, True
        while ordinary and event < len(values):
            event, ordinary = self._run(event, len(values), values, times=())
        if not ordinary or self._unreadable(batch.column("key")):
            raise EventFailedError
        yield from self._rows(batch, numbers.take(pa.array(self._sent, pa.int64())))

    def _number(self, numbers: list[int], seq: int) -> int:
        """Number the events sent since the last call, from ``seq`` on, and return the next free number."""
        every, since = len(self._outputs), len(self._sent) - len(numbers)
        if every:
            numbers.extend(range(seq, seq + since * every, every))
        return seq + since * every

    def _unreadable(self, keys: pa.Array) -> list[int]:
        """The indexes of keys that cannot be decoded: dead letters, whether or not a function uses keys."""
        coded = keys.dictionary_encode()
        unreadable = set()
        for code, key in enumerate(coded.dictionary.to_pylist()):
            try:
                self._decoder.key(key)
            except SerializationError:
                unreadable.add(code)
        indices = enumerate(coded.indices.to_pylist()) if unreadable else ()
        return [index for index, code in indices if code in unreadable]

    def _run(
        self, first: int, stop: int, values: Sequence[bytes | None], times: Sequence[int | None]
    ) -> tuple[int, bool]:
        """Process events from ``first`` up to ``stop``, until one is not ordinary or half of the timeout has passed.

        Return the index of the next event, and False if this event is known not to be ordinary.
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
            pass_on_interruption(error)
            if ended != event:
                self._undo(event, error)
                return event, False
            # The time limit struck after the event had ended, while its writes were kept: keep them in all tables.
            for table in tables:
                table.keep(times[event])
            return event + 1, True
        return stop, True

    def _undo(self, event: int, error: BaseException) -> None:
        """Drop the sends and writes of a failed event, and keep the account unless the executor tries it again."""
        if not isinstance(error, _LeftToExecutorError | EventTimeoutError):
            self._account = account_of_failure(error, frames=4)
        del self._sent[bisect_left(self._sent, event) :]
        for output in self._outputs:
            output.cut(len(self._sent))
        for table in self._tables:
            table.drop()
        self._steps = None  # `init` may have to run again

    def _process(self, values: Sequence[bytes | None]) -> Callable[[int], None]:
        """A function that takes the event at an index through the pipeline to the outputs."""
        steps = self._steps = self._steps or self._functions()
        decode, outputs, sent = self._decoder.value, self._outputs, self._sent.append

        def process(event: int) -> None:
            data = values[event]
            try:
                value = None if data is None else decode(data)
            except SerializationError:
                raise _LeftToExecutorError from None
            for filters, function in steps:
                result = function(value)
                if type(result) not in PLAIN:
                    if isinstance(result, CoroutineType):
                        result.close()  # the executor calls again, and awaits that coroutine
                    raise _LeftToExecutorError
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
        """The functions of the operations (see ``_steps``). Those of the outputs are made, too."""
        functions = []
        for operation in self._executor.operations():
            snippet: Any = operation.plan.function  # not None: see is_by_column
            functions.append((operation.plan.kind == "filter", operation.execute(snippet, {})))
        for output, send in zip(self._outputs, self._executor.plan.outputs, strict=True):
            output.key_of = _key_of(send)
        return functions

    def _rows(self, batch: pa.RecordBatch, numbers: pa.Array) -> Iterator[pa.RecordBatch]:
        """The records that were sent, one Arrow batch per output; the outputs are empty afterwards."""
        count, partition = len(self._sent), self._executor.topics.partition
        times = batch.column("timestamp")
        if count < batch.num_rows:
            times = times.take(pa.array(self._sent, pa.int64()))
        for index, output in enumerate(self._outputs if count else ()):
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
            yield columns_to_arrow(columns, pc.add(numbers, index) if index else numbers)
            output.cut(0)
        self._sent.clear()


class _LeftToExecutorError(Exception):
    """The value of an event cannot be decoded, or a function's result may be awaitable or fan out: it is not PLAIN."""


def quickest(executor: Executor) -> ByColumn | Executor:
    """The quick way through the executor's pipeline, if it is enough; else the executor."""
    return ByColumn(executor) if is_by_column(executor) else executor


def is_by_column(executor: Executor) -> bool:
    """Whether the functions of the executor's agent use only the value and tables: the quick way is enough."""
    plan, changelogs = executor.plan, executor.topics.changelogs
    if plan.take is not None or executor.clocks or not isinstance(executor.decoder, TopicDecoder):
        return False
    if not all(output.is_plain and output.topic not in changelogs for output in plan.outputs):
        return False
    return all(map(_uses_only_the_value, plan.pipeline))


def _uses_only_the_value(plan: OperationPlan) -> bool:
    """Whether an operation is a function that uses only the value and tables, and can be executed once for all."""
    function = plan.function
    if function is None or not function.returns:
        return False
    return function.remembers_nothing and not function.may_use("context")


def _key_of(plan: SendPlan) -> Callable[[Any], bytes | None] | None:
    """The function that makes the encoded key of a value; None if the send has no ``keySelector``."""
    if plan.key_selector is None:
        return None
    select, name = bind(in_empty_scope(plan.key_selector), {}), plan.serializers.key
    return lambda value: encode_key(name, awaited(select(value)))
