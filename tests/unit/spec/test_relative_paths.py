"""A relative path in a manifest is relative to the folder of the manifest, wherever a command runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaspr_delta.control.documents import Document
from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.bindings import FilesPlan, KafkaPlan
from kaspr_delta.spec.loader import LoadedManifests, load_path, load_text, together
from tests.manifests import manifests

TEXT = """
KasprApp/shop:
  bootstrapServers: "k:9092"
  tls: {enabled: true, caFile: certs/ca.pem}
  topics:
    clicks: {files: {path: ../in/clicks, format: json}}
    sales: {kafka: {}}
KasprTable/wards: {source: {table: ./lake/wards, key: [id]}}
KasprTable/named: {source: {table: main.lake.wards, key: [id]}}
KasprTable/clicked: {name: clicked, from: {topic: clicks}, count: {}}
KasprTable/sold: {name: sold, from: {topic: sales}, count: {}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "app.yaml").write_text(manifests("shop", TEXT))
    return folder


def plan_of(loaded: LoadedManifests) -> tuple[Plan, list[str]]:
    (plan,), findings = build_plans(loaded)
    return plan, [str(finding) for finding in findings]


def paths(plan: Plan) -> dict[str, str | None]:
    endpoints = {topic.name: topic.binding.endpoint for topic in plan.topics if topic.binding}
    clicks, sales = endpoints["clicks"], endpoints["sales"]
    assert isinstance(clicks, FilesPlan)
    assert isinstance(sales, KafkaPlan)
    sources = {table.name: table.delta_name for table in plan.tables if table.is_foreign}
    return {"clicks": clicks.path, "sales": sales.ca_file, **sources}


def test_paths_begin_at_the_folder_of_the_manifest(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    found = load_path(Path("app"))
    expected = {
        "clicks": str(folder.parent / "in" / "clicks"),
        "sales": str(folder / "certs" / "ca.pem"),
        "wards": str(folder / "lake" / "wards"),
        "named": "main.lake.wards",
    }
    assert paths(plan_of(found)[0]) == expected
    documents = [Document.of(manifest) for manifest in found.manifests]
    monkeypatch.chdir("/")
    assert paths(plan_of(together(document.load() for document in documents))[0]) == expected


def test_manifests_that_lie_elsewhere_each_time_have_whole_paths(folder: Path) -> None:
    for loaded in (load_path(folder, "bundles/shop"), load_text(manifests("shop", TEXT), "standard input")):
        errors = [text for text in plan_of(loaded)[1] if "error" in text]
        assert [text.split("'")[1] for text in errors] == ["certs/ca.pem", "../in/clicks", "./lake/wards"]
        assert errors[0].endswith(
            "is relative to a manifest that lies elsewhere each time: write a whole path, or a URI (for example"
            " /data/clicks, or /Volumes/main/raw/clicks on Databricks)"
        )
