"""Turns of ``dev`` without Java: a run does nothing, so that only the given rows are there."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from kaspr_delta import Application
from kaspr_delta.errors import ManifestError, ResourceFailedError
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.spec.fixture_files import load_fixtures
from kaspr_delta.testing.changed_rows import ChangedRow
from kaspr_delta.testing.development import Development, Turn
from tests.manifests import manifests

APP = """\
KasprApp/shop: {}
KasprTable/prices: {}
KasprTask/report:
  schedule: {interval: 1h}
  processors: {pipeline: []}
"""


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    ran: list[Any] = []
    monkeypatch.setattr(Application, "run", lambda _, only=(), stop=None: ran.append(list(only)))  # noqa: ARG005
    (tmp_path / "app.yaml").write_text(manifests("shop", APP))
    give(tmp_path, "{key: a, value: 1}")
    return ran


def give(folder: Path, *rows: str) -> None:
    given = f"{{tables: {{prices: [{', '.join(rows)}]}}, tasks: [report]}}"
    (folder / "app.test.yaml").write_text(f"test: a rule\ngiven: {given}\nthen: {{}}\n")


def turn_of(development: Development) -> Turn:
    fixtures, findings = load_fixtures(development.path)
    assert not findings
    found = development.turn(fixtures)
    assert found is not None
    return found


def test_a_turn_compares_with_the_one_before_and_keeps_its_folder_until_the_next(
    tmp_path: Path, runs: list[Any]
) -> None:
    development = Development(tmp_path)
    first = turn_of(development)
    assert (first.rows, first.differences) == ({"table/prices": 1, "dead letters": 0}, None)
    assert runs == [[], ["task/report"], []]
    assert Path(first.warehouse).is_dir()
    assert turn_of(development).differences == {}
    assert not Path(first.warehouse).exists()
    give(tmp_path, "{key: a, value: 2}", "{key: b, value: 3}")
    third = turn_of(development)
    assert third.differences == {
        "table/prices": [ChangedRow('"a"', {"value": 1}, {"value": 2}), ChangedRow('"b"', None, {"value": 3})]
    }
    (tmp_path / "app.yaml").write_text(manifests("shop", APP.replace("prices", "costs")))
    give(tmp_path)
    (tmp_path / "app.test.yaml").unlink()
    assert turn_of(development).differences == {
        "table/prices": [ChangedRow('"a"', {"value": 2}, None), ChangedRow('"b"', {"value": 3}, None)]
    }
    assert development._last is not None
    development.close()
    assert not Path(third.warehouse).exists()


def test_a_turn_that_fails_or_is_stopped_is_not_compared_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    development = Development(tmp_path)
    turn_of(development)
    (tmp_path / "app.yaml").write_text(manifests("shop", APP + "KasprTable/bad: {name: 5}\n"))
    with pytest.raises(ManifestError):
        turn_of(development)
    (tmp_path / "app.yaml").write_text(manifests("shop", APP))
    give(tmp_path, "{key: a, value: 2}")
    stop = threading.Event()
    stop.set()
    assert development.turn(load_fixtures(tmp_path)[0], stop) is None

    def fails(_: Application, **__: Any) -> None:
        raise ResourceFailedError("agent/copy failed")

    with monkeypatch.context() as patched:
        patched.setattr(Application, "run", fails)
        with pytest.raises(ResourceFailedError):
            turn_of(development)
    (rows,) = (turn_of(development).differences or {}).values()
    assert rows == [ChangedRow('"a"', {"value": 1}, {"value": 2})]
    development.close()


def test_a_warehouse_keeps_its_rows_and_gets_those_of_fixtures_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuilt: list[str] = []
    monkeypatch.setattr(Application, "rebuild", lambda _, name: rebuilt.append(name))
    warehouse = tmp_path / "wh"
    first = Development(tmp_path, warehouse)
    assert turn_of(first).rows["table/prices"] == 1
    give(tmp_path, "{key: b, value: 3}")
    assert turn_of(first).differences == {}
    first.close()
    assert warehouse.is_dir()
    ref = ResourceRef("task", "report")
    monkeypatch.setattr(Application, "rebuilds", lambda _: {ref: "its definition changed"})
    again = turn_of(Development(tmp_path, warehouse))
    assert (again.rows["table/prices"], again.rebuilt, rebuilt) == (
        1,
        {"task/report": "its definition changed"},
        ["task/report"],
    )
