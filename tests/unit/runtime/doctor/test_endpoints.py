from __future__ import annotations

from pathlib import Path

import pytest

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.runtime.applying import only_plan
from kaspr_delta.runtime.doctor.bench import Bench
from kaspr_delta.runtime.doctor.endpoints import probes
from kaspr_delta.runtime.doctor.probe import Answer
from kaspr_delta.spec.loader import load_text
from kaspr_delta.storage.namespace import UnityNamespace
from tests.manifests import manifests
from tests.unit.runtime.doctor.fake import bench_on

BOUND = """\
KasprApp/shop:
  topics:
    clicks: {{direction: input, files: {{path: {folder}/clicks, format: json}}}}
    prices: {{direction: input, files: {{path: "s3://bucket/prices", format: json}}}}
    reports: {{direction: output, files: {{path: {folder}/reports, format: json}}}}
    archive: {{direction: output, files: {{path: "s3://bucket/archive", format: json}}}}
    orders:
      direction: input
      kafka: {{bootstrapServers: "broker:9092", authentication: {login}}}
KasprTable/t: {{name: t}}
"""
LOGIN = "{type: plain, username: u, passwordSecret: {environment: KAFKA_PASSWORD}}"


def bound_plan(folder: Path) -> Plan:
    return only_plan(load_text(manifests("shop", BOUND.format(folder=folder, login=LOGIN)), "shop.yaml"), None)


def answers(bench: Bench, folder: Path) -> dict[str, Answer]:
    return {probe.name: probe.answer(bench, 9) for probe in probes(bound_plan(folder))}


def test_endpoints_that_may_be_used_are_ok(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "hidden")
    (tmp_path / "clicks").mkdir()
    bench = bench_on(tmp_path)
    found = answers(bench, tmp_path)
    assert {name: answer.seen for name, answer in found.items() if answer.grade != "ok"} == {}
    files = {"files for clicks", "files for prices", "files of reports", "files of archive"}
    assert set(found) == {*files, "password of orders"}
    assert bench.spark.written == ["s3://bucket/archive/_kaspr_doctor"]  # type: ignore[attr-defined]  # of the fake
    assert list((tmp_path / "reports").iterdir()) == []
    assert all("hidden" not in answer.seen for answer in found.values())


def test_endpoints_that_may_not_be_used_are_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = bench_on(tmp_path, namespace=UnityNamespace("main", "shop", str(tmp_path), None, "shop"))
    for name in ("load", "text"):
        monkeypatch.delattr(f"tests.unit.runtime.doctor.fake.FakeSpark.{name}")
    (tmp_path / "reports").write_text("no folder")
    found = answers(bench, tmp_path)
    assert {answer.grade for answer in found.values()} == {"problem"}
    assert found["files for clicks"].seen == f"{tmp_path}/clicks is not there"
    assert "password" in found["password of orders"].seen


def test_a_folder_on_this_machine_may_come_later(tmp_path: Path) -> None:
    assert answers(bench_on(tmp_path), tmp_path)["files for clicks"].seen == "not there yet: the run makes it"
