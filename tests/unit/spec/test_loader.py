from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaspr_delta.spec.diagnostics import Location, Severity, has_errors
from kaspr_delta.spec.loader import load_path, load_text

APP = "apiVersion: kaspr.io/v1alpha1\nkind: KasprApp\nmetadata:\n  name: shop\n"
TABLE = """\
apiVersion: kaspr.io/v1alpha1
kind: KasprTable
metadata:
  name: orders
  labels:
    kaspr.io/app: shop
spec:
  partitions: 6
"""
JOIN = """\
apiVersion: kaspr.io/v1alpha1
kind: KasprJoin
metadata:
  name: orders-products
  labels:
    kaspr.io/app: shop
spec:
  leftTable: orders
  rightTable: products
  extractor:
    entrypoint: product_of
    python: |
      def product_of(order):
          return order["product_id"]
"""


def messages(text: str) -> list[str]:
    return [str(finding) for finding in load_text(text, "m.yaml").findings]


def spec(text: str) -> Any:
    (loaded,) = load_text(text, "m.yaml").manifests
    return loaded.manifest.spec


def test_every_document_has_its_text_and_its_first_line() -> None:
    loaded = load_text(f"# first\n{APP}---\n# second\n\n{TABLE}", "m.yaml")
    assert [manifest.location for manifest in loaded.manifests] == [Location("m.yaml", 2), Location("m.yaml", 9)]
    assert [manifest.text for manifest in loaded.manifests] == [APP, TABLE]


def test_a_stored_document_is_loaded_again_with_its_places() -> None:
    first = load_text(f"{APP}---\n{JOIN}", "m.yaml").manifests[1]
    again = load_text(first.text, first.location.file, first.location.line).manifests[0]
    assert again == first
    assert again.positions.key(("spec", "extractor", "python")) == Location("m.yaml", 17, 5)


def test_text_behind_the_separator_belongs_to_the_document() -> None:
    loaded = load_text("--- {apiVersion: kaspr.io/v1alpha1, kind: KasprApp, metadata: {name: 5}}\n", "m.yaml")
    assert [finding.location for finding in loaded.findings] == [Location("m.yaml", 1, 70)]


def test_a_location_falls_back_to_the_nearest_parent_that_exists() -> None:
    manifest = load_text(JOIN, "m.yaml").manifests[0]
    assert manifest.positions.key(("spec", "extractor", "nothing", 3)) == manifest.positions.key(("spec", "extractor"))
    assert manifest.positions.key(("nothing",)) == Location("m.yaml", 1, 1)
    assert manifest.positions.value(("spec", "leftTable")) == Location("m.yaml", 8, 14)


def test_snippets_carry_the_line_of_the_manifest() -> None:
    manifest = load_text(JOIN, "m.yaml", 100).manifests[0]
    snippet = manifest.snippets["spec", "extractor"]
    assert (snippet.file, snippet.first_line, snippet.entrypoint) == ("m.yaml", 112, "product_of")
    with pytest.raises(KeyError) as error:
        snippet.function({})({})
    assert error.traceback[-1].lineno == 112  # counted from 0 by pytest: line 113


def test_metadata_and_status_written_by_kubectl_are_accepted() -> None:
    metadata = "  uid: 1-2\n  creationTimestamp: 2026-01-01T00:00:00Z\n  managedFields: [{manager: kubectl}]\n"
    assert messages(TABLE.replace("metadata:\n", f"metadata:\n{metadata}")) == []
    assert messages(TABLE + "status:\n  app: {name: shop, status: AppFound}\n") == []


def test_misspelt_metadata_is_an_error_with_the_near_name() -> None:
    assert messages(APP.replace("  name", "  lables: {a: b}\n  name")) == [
        "m.yaml:4:3: error: unknown field 'lables' in metadata (did you mean 'labels'?)"
    ]


def test_a_key_without_a_value_is_absent() -> None:
    join = spec(JOIN + "  type:\n  outputChannel: null\n")
    assert (join.type, join.output_channel) == ("inner", None)


def test_numbers_in_topic_configuration_become_text() -> None:
    configs = "  extraTopicConfigs: {retention.ms: 86400000, unclean.leader.election.enable: true}\n"
    expected = {"retention.ms": "86400000", "unclean.leader.election.enable": "true"}
    assert spec(TABLE + configs).extra_topic_configs == expected


def test_merge_keys_and_anchors_are_read() -> None:
    table = spec(TABLE + "  options: &base {a: x}\n  extraTopicConfigs:\n    <<: *base\n    b: y\n")
    assert table.extra_topic_configs == {"a": "x", "b": "y"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x [*x]\n", "m.yaml:1:8: error: '*x' is inside the value that it refers to (write the value out)"),
        ("? [a]\n: b\n", "m.yaml:1:3: error: a key must be text (remove the '?' or quote the key)"),
        ("a: !secret x\n", "m.yaml:1:4: error: the YAML tag '!secret' has no meaning here (remove it)"),
        ("a: 1\n<<: 2\n", "m.yaml:2:5: error: '<<' merges mappings only (refer to a mapping with '*name')"),
        ("a: @x\n", "m.yaml:1:4: error: a value cannot begin with '@' (put it in quotes)"),
        ('a: "x\n', "m.yaml:1:4: error: the text ends inside quotes (close the quotes)"),
    ],
)
def test_unsupported_yaml_is_an_error_with_the_remedy(text: str, message: str) -> None:
    assert message in messages(text)


def test_two_errors_of_one_document_are_reported_together() -> None:
    text = JOIN.replace("leftTable", "leftTabel").replace("return order[", "return order(")
    assert [finding.location.line for finding in load_text(text, "m.yaml").findings] == [8, 14]


def test_a_broken_manifest_is_known_by_name() -> None:
    loaded = load_text(TABLE.replace("partitions", "partitoins"), "m.yaml")
    assert loaded.manifests == ()
    assert loaded.broken == {("KasprTable", "orders")}


def test_a_folder_is_loaded_recursively_in_sorted_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "b" / "table.yml").write_text(TABLE)
    (tmp_path / "a.yaml").write_text(APP)
    (tmp_path / ".git" / "other.yaml").write_text("not: ours")
    (tmp_path / "notes.txt").write_text("not: yaml")
    monkeypatch.chdir(tmp_path)
    loaded = load_path(Path())
    assert [manifest.location.file for manifest in loaded.manifests] == ["a.yaml", "b/table.yml"]
    assert loaded.findings == ()


def test_a_file_elsewhere_is_named_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    file = tmp_path / "app.yaml"
    file.write_text(APP)
    assert load_path(file).manifests[0].location.file == str(file)


def test_a_folder_without_manifests_is_an_error(tmp_path: Path) -> None:
    (finding,) = load_path(tmp_path).findings
    assert finding.severity is Severity.ERROR
    assert finding.message == "this folder holds no manifests"


def test_windows_line_ends_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    file = tmp_path / "join.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + f"{APP}---\n{JOIN}".replace("\n", "\r\n").encode())
    loaded = load_path(file)
    assert loaded.findings == ()
    assert [manifest.location.line for manifest in loaded.manifests] == [1, 6]


def test_a_file_that_is_not_utf8_is_a_finding_at_its_first_wrong_byte(tmp_path: Path) -> None:
    # Written here, because tools that read all YAML of a project would fail on it.
    (tmp_path / "latin1.yaml").write_bytes("apiVersion: é".encode("latin-1"))
    (finding,) = load_path(tmp_path).findings
    assert str(finding).endswith("latin1.yaml:1:13: error: this is not UTF-8 text: byte 0xe9 (save the file as UTF-8)")


@given(st.text())
def test_no_text_makes_the_loader_raise(text: str) -> None:
    loaded = load_text(text, "m.yaml")
    assert loaded.manifests == ()


@pytest.mark.filterwarnings("ignore:.*invalid escape sequence")  # Python warns of the author's text
@given(st.data())
def test_no_change_to_a_manifest_makes_the_loader_raise(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(JOIN)))
    end = data.draw(st.integers(start, min(len(JOIN), start + 30)))
    text = JOIN[:start] + data.draw(st.text(max_size=8)) + JOIN[end:]
    loaded = load_text(text, "m.yaml")
    assert loaded.manifests or has_errors(loaded.findings)
