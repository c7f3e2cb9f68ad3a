"""All combinations of a join's fields, against the table of shapes."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from kaspr_delta.spec.diagnostics import Finding
from kaspr_delta.spec.join import JoinSpec
from kaspr_delta.spec.loader import load_text

CODE = "{python: 'f = lambda value: value'}"
WRITTEN: dict[str, Any] = {
    "leftTable": "orders",
    "leftStream": {"topic": "raw-orders"},
    "rightTable": "products",
    "rightStream": {"topic": "raw-products"},
    "on": "key",
    "extractor": {"python": "f = lambda value: value"},
    "rightExtractor": {"python": "f = lambda value: value"},
    "window": {"before": "5m", "after": "5m"},
    "pending": {"ttl": "10m"},
    "repartition": {"partitions": 4},
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


def findings(spec: str) -> tuple[Finding, ...]:
    head = "apiVersion: kaspr.io/v1alpha1\nkind: KasprJoin\nmetadata: {name: j, labels: {kaspr.io/app: shop}}\nspec:\n"
    return load_text(head + "".join(f"  {line}\n" for line in spec.splitlines()), "m.yaml").findings


def messages(spec: str) -> list[str]:
    return [finding.message for finding in findings(spec)]


def test_exactly_the_combinations_of_the_shapes_are_accepted() -> None:
    combinations = [
        (set(fields), kind)
        for size in range(len(WRITTEN) + 1)
        for fields in itertools.combinations(WRITTEN, size)
        for kind in TYPES
    ]
    accepted = 0
    for fields, kind in combinations:
        data: dict[str, Any] = {name: WRITTEN[name] for name in fields} | ({"type": kind} if kind else {})
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
        spec = "".join(f"{name}: {json.dumps(WRITTEN[name])}\n" for name in fields) + f"type: {min(types)}"
        places = {field: f"m.yaml:{number}:" for number, field in enumerate(fields, 5)}
        found = findings(spec)
        # The finding is at one of the two fields and names the place of the other.
        assert any(
            places[extra] in str(finding)
            and "(at m.yaml:" in finding.message
            and any(places[name] in str(finding) for name in needed)
            for finding in found
        ), (extra, found)


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
