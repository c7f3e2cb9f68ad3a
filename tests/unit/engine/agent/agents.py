"""Agents, tables and records for tests of the executor without Spark."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import count
from math import inf
from textwrap import dedent
from typing import Any

import pyarrow as pa

from kaspr_delta.engine.agent.executor import Executor
from kaspr_delta.engine.agent.ordered import run_in_order
from kaspr_delta.engine.agent.table_state import TableState
from kaspr_delta.engine.streams.effect import SCHEMA, Effect
from kaspr_delta.engine.streams.event import App, InputRecord, TopicDecoder
from kaspr_delta.engine.streams.output import Topics
from kaspr_delta.engine.streams.source import INPUT
from kaspr_delta.functions.entrypoint import resolve, resolve_statements
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.definition.resources import (
    AgentPlan,
    OperationPlan,
    SendPlan,
    SerializerName,
    Serializers,
    TableParameter,
    TablePlan,
    TakePlan,
    TopicInput,
)
from kaspr_delta.plan.definition.window import WindowPlan
from kaspr_delta.serde.instants import microseconds
from kaspr_delta.spec.diagnostics import Location
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.limits import Limits

JSON = Serializers("json", "json")
HERE = Location("m.yaml", 1, 1)
NOON = microseconds(datetime(2024, 5, 1, 12, tzinfo=timezone.utc))
_INPUT = arrow_schema(", ".join(f"{name} {kind}" for name, kind in INPUT.items()))
_identities = count()


@dataclass
class FakeReader:
    """The rows of a table before the batch, by row keys. Fetched row keys and scans are recorded."""

    rows: dict[Any, str] = field(default_factory=dict)
    fetched: list[set[Any]] = field(default_factory=list)
    scans: int = 0

    def fetch(self, row_keys: Collection[Any]) -> dict[Any, str]:
        self.fetched.append(set(row_keys))
        return {row_key: self.rows[row_key] for row_key in row_keys if row_key in self.rows}

    def scan(self, start: int | None) -> dict[Any, str]:
        self.scans += 1
        return {row_key: value for row_key, value in self.rows.items() if getattr(row_key, "start", None) == start}


def code(source: str, entrypoint: str | None = None) -> Snippet:
    return resolve(dedent(source), entrypoint)


def table_plan(
    name: str = "counts", default: str | None = None, serializers: Serializers = JSON, window: WindowPlan | None = None
) -> TablePlan:
    return TablePlan(
        name=name,
        delta_name=name,
        changelog=f"shop-app-{name}-changelog",
        serializers=serializers,
        partitions=1,
        default=code(default) if default is not None else None,
        window=window,
        description="",
        location=HERE,
    )


def table_state(rows: Mapping[str, str] | None = None, **plan: Any) -> TableState:
    return TableState(table_plan(**plan), FakeReader(dict(rows or {})))


def mapped(source: str, tables: Iterable[str] = (), entrypoint: str | None = None, name: str = "map") -> OperationPlan:
    parameters = tuple(TableParameter(table, table) for table in tables)
    return OperationPlan(name, "map", code(source, entrypoint), None, parameters)


def filtered(source: str, tables: Iterable[str] = ()) -> OperationPlan:
    return replace(mapped(source, tables), kind="filter")


def sending(plan: SendPlan, tables: Iterable[str] = ()) -> OperationPlan:
    return OperationPlan("send", "topicSend", None, plan, tuple(TableParameter(table, table) for table in tables))


def send_to(
    topic: str | None = "out", *, key: SerializerName = "json", value: SerializerName = "json", **options: Any
) -> SendPlan:
    """A send; options are selectors as Python text, ``ack`` and ``pass_through``."""
    selectors = (name for name in SendPlan.__slots__ if name.endswith(("selector", "predicate")))
    chosen: dict[str, Any] = dict.fromkeys(selectors)
    chosen.update((name, code(option) if isinstance(option, str) else option) for name, option in options.items())
    return SendPlan(topic=topic, serializers=Serializers(key, value), **chosen)


def executor(
    *pipeline: OperationPlan,
    outputs: Iterable[SendPlan] | None = None,
    init: str | None = None,
    tables: Iterable[TableState] = (),
    identity: str | None = None,
    take: TakePlan | None = None,
) -> Executor:
    """An agent that reads topic ``in`` and by default sends to ``out``; a new agent unless ``identity`` is given."""
    states = {state.plan.name: state for state in tables}
    plan = AgentPlan(
        name="agent",
        input=TopicInput(("in",), None, JSON, "earliest"),
        take=take,
        init=resolve_statements(dedent(init)) if init is not None else None,
        pipeline=pipeline,
        outputs=tuple([send_to()] if outputs is None else outputs),
        tables=tuple(states),
        log="log__agent",
        description="",
        location=HERE,
    )
    app = App.of("shop", "shop-app")
    topics = Topics({"out": 4}, 8)
    name = identity or f"test/{next(_identities)}"
    return Executor(name, plan, app, TopicDecoder(JSON), topics, states, read_only=False, timeout=inf)


def record(value: Any, key: Any = None, offset: int = 0, **fields: Any) -> InputRecord:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    encoded = None if key is None else json.dumps(key).encode()
    given = InputRecord("in", encoded, data, None, NOON, 0, offset)
    return given._replace(**fields)


def arrow(records: Iterable[InputRecord]) -> pa.RecordBatch:
    """Records as the Arrow batch that an agent or a join receives."""
    return pa.RecordBatch.from_pylist([one._asdict() for one in records], _INPUT)


def in_order(agent: Executor, records: Iterable[InputRecord], limits: Limits | None = None) -> list[Effect]:
    """The effects of a batch of an agent with tables."""
    batches = run_in_order(agent, [pa.Table.from_batches([arrow(records)])], limits or Limits())
    table = pa.Table.from_batches(batches, SCHEMA).sort_by("seq")
    for name in ("timestamp", "window_start"):
        place = SCHEMA.get_field_index(name)
        table = table.set_column(place, name, table[name].cast(pa.int64()))
    return [Effect(**row) for row in table.drop_columns(["seq"]).to_pylist()]


def sent(effects: Iterable[Effect], topic: str = "out") -> list[Any]:
    """The values sent to a topic."""
    chosen = [effect for effect in effects if effect.kind == "send" and effect.target == topic]
    return [None if effect.value is None else json.loads(effect.value) for effect in chosen]


def problem_of(effects: list[Effect]) -> str:
    """The detail of the dead letter, which must be the only effect."""
    (letter,) = effects
    assert letter.kind == "dead-letter"
    assert letter.problem is not None
    return letter.problem["detail"] or ""
