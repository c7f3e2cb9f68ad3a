"""Whole agents as people write them: YAML in, records out, with tables in memory."""

from __future__ import annotations

import json
from math import inf
from typing import Any

import pytest

from kaspr_delta.engine.agent.executor import Executor
from kaspr_delta.engine.agent.table_state import TableState
from kaspr_delta.engine.streams.effect import Effect
from kaspr_delta.engine.streams.event import App, TopicDecoder
from kaspr_delta.engine.streams.output import Topics
from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.spec.loader import load_text
from tests.unit.engine.agent.agents import FakeReader, problem_of, record, sent

HEAD = "apiVersion: kaspr.io/v1alpha1\nkind: %s\nmetadata: {name: %s, labels: {kaspr.io/app: shop}}\nspec:\n"


def agent(spec: str, **tables: str) -> Executor:
    """The agent of a manifest that reads topic ``in``; ``tables`` are the fields of the tables it uses."""
    lines = "".join(f"  {line}\n" for line in f"input: {{topic: {{name: in}}}}{spec}".splitlines())
    manifests = [HEAD % ("KasprAgent", "a") + lines]
    manifests += [f"{HEAD % ('KasprTable', name)}  {{{fields}}}\n" for name, fields in tables.items()]
    (plan,), _ = build_plans(load_text("---\n".join(manifests), "m.yaml"))
    planned: Any = plan.agent("a")
    assert planned is not None, plan.findings
    states = {name: TableState(plan.known_table(name), FakeReader()) for name in planned.tables}
    app = App.of("shop", "shop-app")
    decoder, topics = TopicDecoder(planned.input.serializers), Topics.of(plan)
    return Executor(f"sample/{spec}", planned, app, decoder, topics, states, read_only=False, timeout=inf)


def keys(effects: list[Effect], topic: str) -> list[Any]:
    return [effect.key and json.loads(effect.key) for effect in effects if effect.target == topic]


VALIDATE = """
processors:
  init: {python: "called = []\\ndef init(): called.append('init')"}
  pipeline: [validate, only-valid, process]
  operations:
    - name: validate
      map: {python: "def f(value): return {**value, 'is_valid': 'id' in value, 'init_was_called': called}"}
    - name: only-valid
      filter: {python: "def is_valid(value): return value['is_valid']"}
    - name: process
      map: {python: "def process(value): return {**value, 'processed': True}"}
    - name: never-in-the-pipeline
      map: {python: "def f(value): raise RuntimeError"}
output: {topics: [{name: out}]}
"""


def test_d_2_a_valid_event_is_processed_and_a_function_in_init_is_not_called() -> None:
    validating = agent(VALIDATE)
    done = {"id": 1, "is_valid": True, "init_was_called": [], "processed": True}
    assert sent(validating.process(record({"id": 1}))) == [done]
    assert validating.process(record({})) == []


SENDS_AND_PASSES_ON = """
processors:
  pipeline: [propose, mark]
  operations:
    - name: propose
      topicSend:
        name: proposals
        passThrough: true
        predicate: {python: "def has_schema(value): return value.get('schema') is not None"}
        valueSelector: {python: "def schema(value): return value['schema']"}
    - name: mark
      map: {python: "def mark(value): return {**value, 'schema_proposal_checked': True}"}
output: {topics: [{name: out}]}
"""


@pytest.mark.parametrize(("schema", "proposals"), [(7, [7]), (None, [])])
def test_d_4_a_send_with_a_predicate_sends_some_values_and_passes_all(schema: int | None, proposals: list[int]) -> None:
    effects = agent(SENDS_AND_PASSES_ON).process(record({"schema": schema}))
    assert sent(effects, "proposals") == proposals
    assert sent(effects) == [{"schema": schema, "schema_proposal_checked": True}]


DEAD_LETTERS = """
processors:
  pipeline: [check]
  operations:
    - name: check
      map:
        python: |
          def check(value):
              errors = [] if value["type"] in {"click", "view"} else [f"Invalid event_type: {value['type']}"]
              errors += [] if isinstance(value["at"], int) else ["Timestamp must be a number"]
              return {"error": errors, "event": value} if errors else {"event": value}
output:
  topics:
    - name: good
      predicate: {python: "def good(value): return 'error' not in value"}
      keySelector: {python: "def key(value): return value['user_id']"}
    - {name: bad, predicate: {python: "def bad(value): return 'error' in value"}}
"""


def test_d_5_e_2_an_invalid_event_goes_to_the_topic_for_bad_events_and_a_key_selector_can_fail_a_good_one() -> None:
    checking = agent(DEAD_LETTERS)  # ``user_id`` is one level deeper, in ``event``
    effects = checking.process(record({"type": "foo", "at": "x"}))
    assert sent(effects, "good") == []
    (bad,) = sent(effects, "bad")
    assert bad["error"] == ["Invalid event_type: foo", "Timestamp must be a number"]
    assert keys(effects, "bad") == [None]
    assert "KeyError: 'user_id'" in problem_of(checking.process(record({"type": "click", "at": 1, "user_id": "u"})))


COUNTING = """
processors:
  pipeline: [count, publish]
  operations:
    - name: count
      tables: [{name: windows, paramName: windows}]
      map:
        python: |
          def count(value, windows):
              for dimension in ("global", f"user:{value['user']}"):
                  key = f"{dimension}:{value['at'] // 300 * 300}"
                  users = windows.get(key, %s)
                  users%s
                  windows[key] = users
                  yield {"key": key, "unique": len(users)}
    - name: publish
      topicSend: {name: metrics, keySelector: {python: "def key(value): return value['key']"}}
"""
EVENTS = [record({"user": user, "at": at}) for user, at in (("u1", 600), ("u2", 660))]


def test_e_3_an_event_is_counted_under_several_keys() -> None:
    counting = agent(COUNTING % ("[]", ' = sorted({*users, value["user"]})'), windows="")
    first, second = map(counting.process, EVENTS)
    assert keys(first, "metrics") == ["global:600", "user:u1:600"]
    assert sent(second, "metrics") == [{"key": "global:600", "unique": 2}, {"key": "user:u2:600", "unique": 1}]


def test_e_3_a_stored_set_is_read_as_a_list_so_the_second_event_fails() -> None:
    first, second = map(agent(COUNTING % ("set()", '.add(value["user"])'), windows="").process, EVENTS)
    assert len(sent(first, "metrics")) == 2
    assert "'list' object has no attribute 'add'" in problem_of(second)


ROUTER = """
processors:
  init: {python: "import uuid"}
  pipeline: [route]
  operations:
    - name: route
      tables: [{name: preferences, paramName: preferences}, {name: sent, paramName: sent}]
      map:
        python: |
          def route(value, preferences, sent):
              user = value["user"]
              if sent[user] >= 5:
                  yield {"rate_limited": True, "user": user}
                  return
              for channel in preferences.get(user, ["email", "push", "in_app"]):
                  yield {"channel": channel, "user": user, "id": str(uuid.uuid4())}
              sent[user] += 1
output:
  topics:
    - name: limits
      predicate: {python: "def limited(value): return %s"}
    - nameSelector: {python: "def topic(value): return 'to-' + value.get('channel', 'nobody')"}
      keySelector: {python: "def key(value): return f\\"{value['user']}:{value.get('id')}\\""}
    - name: analytics
      predicate: {python: "def notified(value): return 'channel' in value"}
      keySelector: {python: "def key(value): return f\\"analytics:{value['channel']}\\""}
"""
INT = "defaultSelector: {python: 'def default(): return int'}"


@pytest.mark.parametrize(("predicate", "limited"), [("'rate_limited' in value", 1), ("value['channel'] == ''", 0)])
def test_e_6_a_user_is_notified_on_every_channel_but_not_by_the_sixth_event(predicate: str, limited: int) -> None:
    routing = agent(ROUTER % predicate, preferences="", sent=INT)
    effects = routing.process(record({"user": "u1"}))
    assert {effect.target for effect in effects} == {"to-email", "to-push", "to-in_app", "analytics"}
    assert keys(effects, "analytics") == ["analytics:email", "analytics:push", "analytics:in_app"]
    assert all(key.startswith("u1:") for key in keys(effects, "to-email"))
    for _ in range(4):
        assert len(routing.process(record({"user": "u1"}))) == 6
    # The statement after the last yield runs too.
    assert {key: written.value for key, written in routing.tables["sent"].written.items()} == {'"u1"': "5"}
    sixth = routing.process(record({"user": "u1"}))
    assert len(sent(sixth, "limits")) == limited
    assert limited or "KeyError: 'channel'" in problem_of(sixth)
