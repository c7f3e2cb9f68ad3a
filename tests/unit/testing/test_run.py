"""Fixtures without Java: rows and records are put in and compared, and a run does nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kaspr_delta import Application
from kaspr_delta.errors import ResourceFailedError
from kaspr_delta.testing import Fixture, application, fixtures_in
from tests.manifests import manifests

ROOT = Path(__file__).parents[3]
APP = """\
KasprApp/shop: {{topics: {{out: {{kafka: {{}}}}, orders: {{kafka: {{}}}}}}, bootstrapServers: "a:1"}}
KasprTable/prices: {{}}
KasprAgent/copy:
  input: {{topic: {{name: orders}}}}
  output: {{topics: [{{name: out}}]}}
  processors: {{pipeline: []}}
KasprTask/report:
  schedule: {{interval: 1h}}
  processors: {{pipeline: []}}
"""


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Which resources each run was told to run."""
    ran: list[Any] = []
    monkeypatch.setattr(Application, "run", lambda _, only=(): ran.append(list(only)))
    return ran


def fixture_in(folder: Path, text: str, app: str = APP) -> Fixture:
    (folder / "app.yaml").write_text(manifests("shop", app.format()))
    (folder / "app.test.yaml").write_text(f"test: a rule\n{text}")
    (found,) = fixtures_in(folder)
    return found


def test_rows_and_files_of_rows_are_put_in_and_compared(tmp_path: Path, runs: list[Any]) -> None:
    (tmp_path / "rows.jsonl").write_text('{"key": "a", "value": {"price": 1}}\n')
    found = fixture_in(
        tmp_path,
        """\
given:
  tables:
    prices:
      - file: rows.jsonl
      - {key: b, value: {price: 2.5}}
      - {key: c, value: {price: 3}}
when:
  tables:
    prices: [{key: c, value: null}]
  tasks: [report]
then:
  tables:
    prices: [{key: a, value: {price: 1}}, {key: b, value: {price: 2.50}}]
""",
    )
    assert found.run().differences == {}
    assert runs == [[], [], ["task/report"], []]


def test_records_are_those_since_the_change_and_none_goes_to_kafka(tmp_path: Path, runs: list[Any]) -> None:
    (tmp_path / "records.jsonl").write_text('{"key": "a", "value": 2, "timestamp": 5}\n')
    found = fixture_in(
        tmp_path,
        """\
given:
  topics:
    orders: [{key: a, value: 1}]
when:
  topics:
    orders: [{file: records.jsonl}, {key: a, value: 3, headers: {by: me}}, {key: a}]
then:
  topics:
    orders: [{key: a, value: 2, timestamp: 5}, {key: a, value: 3, headers: {by: me}}, {key: a}]
""",
    )
    assert found.run().differences == {}
    assert len(runs) == 2


def test_a_fixture_that_fails_says_how_by_resource(tmp_path: Path, runs: list[Any]) -> None:
    found = fixture_in(
        tmp_path,
        """\
given: {tables: {prices: [{key: a, value: 1}]}}
then: {tables: {prices: [{key: a, value: 2}, {key: b, value: 3}]}}
""",
    )
    with pytest.raises(AssertionError) as failed:
        found.check()
    assert str(failed.value).splitlines()[1:] == [
        "table/prices",
        '  "a": value is 1, expected 2',
        '  missing: {"key": "b", "value": 3}',
    ]
    assert len(runs) == 1


def test_a_dead_letter_that_is_not_expected_is_a_difference(
    tmp_path: Path, runs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    letter = {"resource": "agent/copy", "source": "orders", "key": '"O1"', "value": "{}", "reason": "event failed"}
    monkeypatch.setattr(Application, "dead_letters", lambda _: [{**letter, "detail": "KeyError", "batch": 1}])
    assert "not expected" in fixture_in(tmp_path, "then: {}\n").run().differences["dead letters"][0]
    expected = "then: {deadLetters: [{key: O1, reason: event failed}]}\n"
    assert fixture_in(tmp_path, expected).run().differences == {}
    other = "then: {deadLetters: [{key: O1, resource: agent/other}]}\n"
    assert fixture_in(tmp_path, other).run().differences == {
        "dead letters": ['"O1": resource is "agent/copy", expected "agent/other"']
    }
    assert len(runs) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("given: {tables: {price: [{key: a, value: 1}]}}\nthen: {}\n", "no table 'price' (did you mean 'prices'?)"),
        ("given: {topics: {order: [{value: 1}]}}\nthen: {}\n", "no topic 'order' (did you mean 'orders'?)"),
        ("then: {joins: {none: []}}\n", "no join 'none' (there is no join yet)"),
        ("given: {topics: {orders: [{file: none.jsonl}]}}\nthen: {}\n", "none.jsonl cannot be read: No such file"),
    ],
)
def test_a_name_that_does_not_exist_is_a_difference(tmp_path: Path, runs: list[Any], text: str, said: str) -> None:
    (line,) = fixture_in(tmp_path, text).run().differences["the run"]
    assert said in line
    assert runs == []


def test_a_resource_that_fails_or_waits_is_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Application) -> None:
        raise ResourceFailedError("agent/copy failed: it is broken")

    monkeypatch.setattr(Application, "run", fails)
    assert fixture_in(tmp_path, "then: {}\n").run().differences == {"the run": ["agent/copy failed: it is broken"]}
    waiting = "KasprTable/sums:\n  from: {{join: none}}\n  count: {{}}\n"
    found = fixture_in(tmp_path, "then: {}\n", APP + waiting).run().differences
    assert list(found) == ["table/sums"]
    assert "none" in found["table/sums"][0]


def test_an_application_of_a_test_has_no_bound_topics_and_leaves_no_folder() -> None:
    with application(ROOT / "bundles" / "kafka-orders") as opened:
        assert [topic.binding for topic in opened.plan.topics] == [None] * len(opened.plan.topics)
        assert not [ref for ref in opened.plan.runs if ref.kind == "topic"]
        opened.topic("raw-orders").produce([{"key": "O1", "value": 1}])
        assert len(opened.topic("raw-orders").records()) == 1
        folder = Path(str(opened.delta.namespace.checkpoints))
        assert folder.parent.exists()
    assert not folder.parent.exists()
