"""All combinations of a join's fields, against the table of shapes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kaspr_delta.spec.diagnostics import Finding
from kaspr_delta.spec.join import JoinSpec, KasprJoin
from kaspr_delta.spec.loader import load_text

CODE = "{python: 'f = lambda value: value'}"
WRITTEN = {
    "leftTable": "orders",
    "leftStream": "{topic: raw-orders}",
    "rightTable": "products",
    "rightStream": "{topic: raw-products}",
    "on": "key",
    "extractor": CODE,
    "rightExtractor": CODE,
    "window": "{before: 5m, after: 5m}",
    "pending": "{ttl: 10m}",
    "repartition": "{partitions: 4}",
}
TYPES = (None, "inner", "left", "outer")

# Per shape: the required fields, the optional fields, and the types.
SHAPES = {
    "foreign-key": ({"leftTable", "rightTable", "extractor"}, set(), {"inner", "left"}),
    "same-key": ({"leftTable", "rightTable", "on"}, set(), {"inner", "left", "outer"}),
    "stream-table": ({"leftStream", "rightTable", "on"}, {"pending", "repartition"}, {"inner", "left"}),
    "stream-table by function": (
        {"leftStream", "rightTable", "extractor"},
        {"pending", "repartition"},
        {"inner", "left"},
    ),
    "right-foreign-key": ({"leftStream", "rightTable", "rightExtractor"}, {"repartition"}, {"left"}),
    "stream-stream": ({"leftStream", "rightStream", "on", "window"}, {"repartition"}, {"inner", "left", "outer"}),
}


def shape_of(fields: set[str], kind: str | None) -> str | None:
    """The shape in ``SHAPES`` with these fields and this type, or None."""
    for shape, (needed, allowed, types) in SHAPES.items():
        if needed <= fields <= needed | allowed and (kind or "inner") in types:
            return shape.removesuffix(" by function")
    return None


def loaded(spec: str) -> tuple[list[JoinSpec], tuple[Finding, ...]]:
    head = "apiVersion: kaspr.io/v1alpha1\nkind: KasprJoin\nmetadata: {name: j, labels: {kaspr.io/app: shop}}\nspec:\n"
    found = load_text(head + "".join(f"  {line}\n" for line in spec.splitlines()), "m.yaml")
    joins = [one.manifest.spec for one in found.manifests if isinstance(one.manifest, KasprJoin)]
    return joins, found.findings


def messages(spec: str) -> list[str]:
    return [finding.message for finding in loaded(spec)[1]]


def test_exactly_the_combinations_of_the_shapes_are_accepted() -> None:
    combinations = [
        (set(fields), kind)
        for size in range(len(WRITTEN) + 1)
        for fields in itertools.combinations(WRITTEN, size)
        for kind in TYPES
    ]
    accepted = 0
    for fields, kind in combinations:
        data: dict[str, Any] = {name: _data(name) for name in fields} | ({"type": kind} if kind else {})
        expected = shape_of(fields, kind)
        problems = list(JoinSpec.combination_problems(data))
        assert (problems == []) == (expected is not None), (fields, kind)
        if expected:
            assert JoinSpec.model_validate(data).shape == expected
            accepted += 1
    assert accepted > 30


@pytest.mark.parametrize("shape", SHAPES)
def test_a_field_that_a_shape_excludes_is_refused_with_both_places(shape: str) -> None:
    needed, allowed, types = SHAPES[shape]
    for extra in sorted(set(WRITTEN) - needed - allowed):
        fields = [*sorted(needed), extra]
        spec = "".join(f"{name}: {WRITTEN[name]}\n" for name in fields) + f"type: {min(types)}"
        places = {field: f"m.yaml:{number}:" for number, field in enumerate(fields, 5)}
        findings = loaded(spec)[1]
        # The finding is at one of the two fields and names the place of the other.
        assert any(
            places[extra] in str(finding)
            and "(at m.yaml:" in finding.message
            and any(places[name] in str(finding) for name in needed)
            for finding in findings
        ), (extra, findings)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "leftTable: a\nrightTable: b\non: key\nwindow: {before: 1m, after: 1m}",
            "'window' is for two streams, and 'leftTable' (at m.yaml:5:14) is a table",
        ),
        (
            "leftTable: a\nrightTable: b\non: key\nextractor: " + CODE,
            "'on: key' joins rows of equal keys, 'extractor' (at m.yaml:8:3) by another key",
        ),
        (
            "leftStream: {topic: a}\nrightTable: b\non: key\ntype: outer",
            "a stream and a table are joined inner or left: 'type: outer' excludes 'leftStream' (at m.yaml:5:3)",
        ),
    ],
)
def test_the_message_names_the_place_of_the_other_field(spec: str, message: str) -> None:
    assert messages(spec) == [message]


def test_broken_rules_are_reported_together_with_errors_of_fields() -> None:
    spec = "leftTable: a\nrightTable: b\ntype: lfet\nwindow: {before: 1 minute, after: 1m}\noutputChanel: x"
    assert messages(spec) == [
        "required field 'extractor' is missing in spec",
        "'spec.type' must be 'inner', 'left' or 'outer', found the text 'lfet'",
        "'window' is for two streams, and 'leftTable' (at m.yaml:5:14) is a table",
        "'1 minute' is not a duration",
        "unknown field 'outputChanel' in spec",
    ]


def test_a_misspelt_field_is_not_reported_as_missing() -> None:
    assert messages("leftTabel: a\nrightTable: b\non: key") == ["unknown field 'leftTabel' in spec"]
    assert messages("leftTable: a\nrightTable: b\nextractr: " + CODE) == ["unknown field 'extractr' in spec"]


def test_a_forgotten_extractor_is_an_error() -> None:
    assert messages("leftTable: a\nrightTable: b") == ["required field 'extractor' is missing in spec"]
    assert messages("leftTable: a\nrightTable: b\nextractor:") == ["required field 'extractor' is empty in spec"]


def test_on_is_read_as_a_key_and_not_as_a_boolean() -> None:
    for written in ("on: key", "'on': key", '"on": "key"', "{on: key}"):
        spec = f"leftTable: a\nrightTable: b\n{written.strip('{}')}"
        assert [join.on for join in loaded(spec)[0]] == ["key"]


def test_a_window_without_grace_has_a_grace_of_0s() -> None:
    sides = "leftStream: {topic: a}\nrightStream: {topic: b}\non: key\n"
    (join,), _ = loaded(sides + "window: {before: 0s, after: 250ms}")
    assert join.window is not None
    assert (join.window.before, join.window.after, join.window.grace) == ("0s", "250ms", "0s")


def _data(field: str) -> Any:
    values: dict[str, Any] = {
        "leftStream": {"topic": "raw-orders"},
        "rightStream": {"topic": "raw-products"},
        "extractor": {"python": "f = lambda value: value"},
        "rightExtractor": {"python": "f = lambda value: value"},
        "window": {"before": "5m", "after": "5m"},
        "pending": {"ttl": "10m"},
        "repartition": {"partitions": 4},
    }
    return values.get(field, WRITTEN[field])
