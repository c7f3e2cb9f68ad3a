"""The result of a join, named where functions get tables."""

from __future__ import annotations

from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.explain.flows import flows
from kaspr_delta.plan.explain.mermaid import as_mermaid
from kaspr_delta.spec.loader import load_text
from tests.manifests import manifests, plan_of

SHOP = """
KasprTable/orders: {}
KasprTable/products: {}
KasprJoin/priced: {leftTable: orders, rightTable: products, column: product}
KasprJoin/clicked: {leftStream: {topic: clicks}, rightTable: products, "on": key}
KasprAgent/reader:
  input: {topic: {name: questions}}
  processors:
    pipeline: [answer]
    operations:
      - name: answer
        tables: [{name: priced, paramName: priced}]
        map: {python: "def answer(id, priced): priced[id] = 1"}
KasprAgent/other:
  input: {topic: {name: more}}
  processors:
    pipeline: [answer]
    operations:
      - name: answer
        tables: [{name: priced, paramName: priced}]
        map: {python: "def answer(id, priced): return priced[id]"}
"""
READER = ResourceRef("agent", "reader")


def test_an_agent_runs_behind_the_join_whose_result_it_reads_and_shares_no_table_with_another_reader() -> None:
    plan = plan_of("shop", SHOP)
    assert [[str(ref) for ref in stage.resources] for stage in plan.stages] == [
        ["join/clicked", "join/priced"],
        ["agent/other", "agent/reader"],
    ]
    assert plan.groups == ()
    assert flows(plan, READER) == (("topic/questions", "join/priced"), ())


def test_a_picture_shows_that_it_reads_the_result_and_not_the_channel() -> None:
    assert "  join_priced --> agent_reader" in as_mermaid([plan_of("shop", SHOP)]).splitlines()


def test_the_reader_of_a_join_that_waits_waits_too() -> None:
    (plan,), _ = build_plans(
        load_text(
            manifests("shop", SHOP.replace("rightTable: products, column", "rightTable: nothing, column")), "m.yaml"
        )
    )
    assert dict(plan.waiting)[READER] == "waits for join/priced"
    assert plan.agent("reader") is None


def test_a_join_with_a_stream_has_no_result() -> None:
    _, findings = build_plans(load_text(manifests("shop", SHOP.replace("name: priced", "name: clicked")), "m.yaml"))
    hints = [one.hint for one in findings if "waits" in one.message]
    assert hints == ["join 'clicked' gives a stream: an agent reads its channel, 'clicked-channel'"] * 2
