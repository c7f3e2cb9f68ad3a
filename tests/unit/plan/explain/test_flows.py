"""The reads and writes of resources, as ``plan`` shows them."""

from __future__ import annotations

import pytest

from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.explain.flows import flows
from tests.unit.plan.shop import Manifest, plan

APP = "topics:\n  visits: {files: {path: /in, format: json}}\n  bills: {files: {path: /out, format: json}}"
SEND = "{name: y, topicSend: {nameSelector: {python: 'def f(v): return v'}}}"


def piped(kind: str, name: str, beginning: str, body: str, *more: str) -> Manifest:
    given = f"{{name: x, tables: [{{name: patients, paramName: p}}], map: {{python: 'def f(v, p): {body}'}}}}"
    steps = f"  pipeline: [x{', y' * len(more)}]\n  operations: [{', '.join((given, *more))}]"
    return kind, name, f"{beginning}\nprocessors:\n{steps}"


PLAN = plan(
    ("KasprTable", "patients", "name: patients"),
    piped("KasprAgent", "bill", "input: {topic: {name: visits}}\noutput: {topics: [{name: bills}]}", "return p.get(v)"),
    piped("KasprAgent", "admit", "input: {topic: {pattern: 'visit.*'}}", "p[v] = 1"),
    piped("KasprAgent", "other", "input: {topic: {name: wards}}", "g(p)"),
    piped("KasprTask", "report", "schedule: {interval: 1m}", "return g(p)", SEND),
    app=APP,
)


@pytest.mark.parametrize(
    ("ref", "read", "written"),
    [
        ("agent/bill", "topic/visits, table/patients", "topic/bills"),
        ("agent/admit", "topics that match visit.*, topic/visits", "table/patients"),
        ("agent/other", "topic/wards, table/patients", "table/patients (perhaps)"),  # its source does not tell
        ("topic/visits", "json files in /in", "topic/visits"),
        ("topic/bills", "topic/bills", "json files in /out"),
        ("task/report", "table/patients", "topic by function"),
    ],
)
def test_a_resource_reads_and_writes_what_its_definition_tells(ref: str, read: str, written: str) -> None:
    assert tuple(map(", ".join, flows(PLAN, ResourceRef.of(ref)))) == (read, written)


def test_a_table_that_an_agent_only_reads_is_before_it_in_the_data_flow() -> None:
    edges = {(edge.source, edge.target) for edge in PLAN.edges}
    assert {pair for pair in edges if "table/patients" in pair} == {
        ("table/patients", "agent/bill"),
        ("agent/admit", "table/patients"),
        ("agent/other", "table/patients"),
    }
    names = [{str(ref) for ref in stage.resources} & {"agent/admit", "agent/bill"} for stage in PLAN.stages]
    assert [name for name in names if name] == [{"agent/admit"}, {"agent/bill"}]
