"""Values stand for ``${NAME}`` in the fields of manifests: in what is read, and in the text that the registry keeps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kaspr_delta.spec.document import read_document
from kaspr_delta.spec.limits import LONGEST_VALUE
from kaspr_delta.spec.loader import LoadedManifests, load_path, load_text
from kaspr_delta.spec.values import Value, Values, replaced, unused
from kaspr_delta.spec.values_file import read_values
from kaspr_delta.spec.webview import KasprWebView
from tests.manifests import manifests

HEAD = "apiVersion: kaspr.io/v1alpha1\nkind: KasprTable\nmetadata: {name: t, labels: {kaspr.io/app: shop}}\nspec:\n"


def read(text: str, given: Mapping[str, Value] | None = None, **environment: str) -> Any:
    document = read_document(text, "m.yaml", 1, values=Values(given or {}, warehouse="/wh", environment=environment))
    assert not document.findings
    return document.data


def texts_of(loaded: LoadedManifests) -> list[str]:
    return [str(finding) for finding in loaded.findings]


def test_references_are_values_of_the_command_of_the_environment_or_the_warehouse() -> None:
    text = "a: ${name}\nb: \"${name} in ${env:PLACE}\"\nc: ${warehouse}/in\nd: ['${name}']\n"
    assert read(text, {"name": "x"}, PLACE="eu") == {"a": "x", "b": "x in eu", "c": "/wh/in", "d": ["x"]}


@pytest.mark.parametrize(
    ("value", "plain"),
    [("3", 3), (3, 3), ("2.5", 2.5), ("true", True), ("007", "007"), ("[1]", "[1]"), ("a: b", "a: b"), ("", "")],
)
def test_a_whole_field_is_a_number_where_its_value_is_one_and_in_quotes_it_is_text(value: Value, plain: Value) -> None:
    text = 'plain: ${x}\nquoted: "${x}"\n'
    assert read(text, {"x": value}) == {"plain": plain, "quoted": str(value)}


def test_python_and_escaped_references_stay() -> None:
    assert read("python: 'f\"${x}\"'\nother: $${x}\nboth: $${${x}\n", {"x": "1"}) == {
        "python": 'f"${x}"',
        "other": "${x}",
        "both": "${1",
    }


def test_without_values_a_reference_is_text() -> None:
    assert read_document("a: ${x}\n", "m.yaml", 1).data == {"a": "${x}"}


def test_given_values_come_before_defaults() -> None:
    values = Values({"a": 1}, {"a": 2, "b": 3})
    assert (values.find("a"), values.find("b")) == (1, 3)


def test_all_that_is_missing_is_said_once_and_leaves_no_second_mistake() -> None:
    text = f"{HEAD}  partitions: ${{partitons}}\n  keySerializer: ${{env:SERIALIZER}}\n  description: ${{a b}} ${{\n"
    values = Values({"partitions": 2}, environment={}, warehouse="")
    no_reference = "is no parameter (write ${NAME}, ${env:NAME} or ${warehouse}; $${ stands for the text ${)"
    assert texts_of(load_text(text, "m.yaml", values=values)) == [
        "m.yaml:5:15: error: the parameter 'partitons' has no value (did you mean 'partitions'?)",
        "m.yaml:6:18: error: the environment has no variable 'SERIALIZER' (set it where the application runs)",
        f"m.yaml:7:16: error: '${{' {no_reference}",
        f"m.yaml:7:16: error: '${{a b' {no_reference}",
    ]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("two\nlines", "has more than one line"),
        ("two\u2028lines", "has more than one line"),
        ("x" * (LONGEST_VALUE + 1), "is too long for a field of a manifest (the most are 1,000"),
    ],
)
def test_a_value_is_short(value: str, problem: str) -> None:
    loaded = load_text(f"{HEAD}  description: ${{x}}\n", "m.yaml", values=Values({"x": value}))
    (text,) = texts_of(loaded)
    assert text.startswith(f"m.yaml:5:16: error: the value of 'x' {problem}")


def test_the_registry_keeps_the_values_on_the_same_lines() -> None:
    text = (
        f"{HEAD}  description: >\n    in ${{x}}\n    and\n  # a comment\n  partitions: ${{n}}\n  keySerializer: raw\n"
    )
    loaded = load_text(text, "m.yaml", values=Values({"x": "e'u\"", "n": "4"}))
    (manifest,) = loaded.manifests
    assert loaded.values == {"x": "e'u\"", "n": "4"}
    assert manifest.text == text.replace("${x}", "e'u\"").replace("${n}", "4")
    assert load_text(manifest.text, "m.yaml").manifests[0].manifest == manifest.manifest


VALUE = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=8)
FORMS = (
    "a: {}",
    'a: "{}"',
    "a: '{}'",
    "a:\n  - {} # c",
    "a: |\n  {}\n  x",
    "a: >\n  {}",
    "a: [\"{}\", 'b {}']",
    'a: "p\n  {}"',
)


@example(["a: |\n  {}\n  x"], " ", "${x}")
@given(st.lists(st.sampled_from(FORMS), min_size=1, max_size=4), VALUE, st.sampled_from(["${x}", "b ${x}", "$${${x}"]))
def test_the_replaced_text_is_read_as_the_same_data_at_the_same_lines(forms: list[str], value: str, part: str) -> None:
    text = "\n".join(form.replace("a:", f"k{number}:").replace("{}", part) for number, form in enumerate(forms))
    found = read_document(f"{text}\nlast: 1\n", "m.yaml", 1, values=Values({"x": value}))
    again = read_document(found.text, "m.yaml", 1)
    assert (again.data, again.findings) == (found.data, ())
    assert again.positions.key(("last",)) == found.positions.key(("last",))


def test_a_file_of_values_lies_beside_manifests_and_is_none(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("n: 4\nserializer: raw\n")
    (tmp_path / "values.prod.yaml").write_text("n: 5\n")
    (tmp_path / "t.yaml").write_text(f"{HEAD}  partitions: ${{n}}\n  keySerializer: ${{serializer}}\n")
    given, findings = read_values(tmp_path / "values.prod.yaml", "p.yaml")
    assert not findings
    for path in (tmp_path, tmp_path / "t.yaml"):
        assert load_path(path).values == {"n": 4, "serializer": "raw"}
        (manifest,) = load_path(path, values=Values(given)).manifests
        assert manifest.text.endswith('  partitions: 5\n  keySerializer: "raw"\n')


def test_mistakes_in_a_file_of_values_have_their_places(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("a b: 1\nlist: [1]\nwarehouse: x\nnothing:\n")
    (tmp_path / "t.yaml").write_text(f"{HEAD}  partitions: 1\n")
    hint = "(a letter, then letters, digits, '_', '-' and '.'; warehouse has its own meaning)"
    assert [text.split("values.yaml:")[1] for text in texts_of(load_path(tmp_path))] == [
        f"1:1: error: 'a b' cannot be the name of a value {hint}",
        "2:1: error: the value of 'list' is a text, a number or a truth value, found a list",
        f"3:1: error: 'warehouse' cannot be the name of a value {hint}",
        "4:1: error: the value of 'nothing' is a text, a number or a truth value, found nothing",
    ]
    for content, message in ((b"- 1", "is a mapping of names"), (b"\xff", "is not UTF-8"), (b"{", "is missing")):
        file.write_bytes(content)
        (finding,) = load_path(tmp_path).findings
        assert message in str(finding)
    _, (finding,) = read_values(tmp_path / "gone.yaml", "gone.yaml")
    assert str(finding) == "gone.yaml:1:1: error: these values cannot be read: No such file or directory"


def test_a_number_that_is_written_in_another_way_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(
        ["a: 1.10\nb: 007 # a code\n", " {x: 1}\nd: 1.5\ne: '1.10'\nf: true\n{g: 1_000, h: 2}\n"][0]
        + "d: 1.5\ne: '1.10'\nf: yes\n"
    )
    values, findings = read_values(file, "values.yaml")
    assert (values["a"], values["b"], values["e"]) == (1.1, 7, "1.10")
    assert [(str(one.location), one.hint) for one in findings] == [
        ("values.yaml:1:4", 'put it in quotes if it is text: "1.10"'),
        ("values.yaml:2:4", 'put it in quotes if it is text: "007"'),
    ]
    file.write_text("{g: 1e3, h: 2}\n")
    (finding,) = read_values(file, "values.yaml")[1]
    assert finding.hint.endswith('"1e3"')


def test_a_value_that_nothing_uses_is_a_warning() -> None:
    assert [str(one) for one in unused(["regoin", "n"], ["region", "n"])] == [
        "--set:1:1: warning: no manifest has a parameter 'regoin' (did you mean 'region'?)"
    ]


def test_text_is_replaced_from_left_to_right() -> None:
    assert replaced("${a}$${a}${b}", str.upper) == "A${a}B"


@pytest.mark.parametrize("text", ["1.10", "007", "1e1", "+5", "0x1F"])
def test_a_text_whose_number_is_written_in_another_way_stays_the_text(text: str) -> None:
    spec = '  request: {method: GET, path: /v}\n  response:\n    headers:\n      X-A: ${p}\n      X-B: "${p}"\n'
    loaded = load_text(manifests("shop", f"KasprWebView/v:\n{spec}"), "m.yaml", values=Values({"p": text}))
    assert not loaded.findings
    (one,) = loaded.manifests
    assert isinstance(one.manifest, KasprWebView)
    assert one.manifest.spec.response.headers == {"X-A": text, "X-B": text}


@pytest.mark.parametrize("text", ["&n ${p}", '&n "${p}"', "&n !!str ${p}", "&n |\n  ${p}"])
@pytest.mark.parametrize("value", ["x", "a\x7fb", "a\x01b"])
def test_the_replaced_text_keeps_anchors_and_is_yaml(text: str, value: str) -> None:
    document = read_document(f"a: {text}\nb: *n\n", "m.yaml", 1, values=Values({"p": value}))
    assert not document.findings
    again = read_document(document.text, "m.yaml", 1, values=None)
    assert (again.data, again.findings) == (document.data, document.findings)
    assert document.data["a"] == document.data["b"]
