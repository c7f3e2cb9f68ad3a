"""The JSON schema and the models refuse the same fields and values."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from pydantic import VERSION, ValidationError
from ruamel.yaml import YAML

from kaspr_delta.spec.base import PROBLEMS
from kaspr_delta.spec.json_schema import manifest_schema
from kaspr_delta.spec.manifest import KINDS, MANIFEST
from kaspr_delta.spec.values_file import is_of_values
from tests.unit.spec.test_every_field import SPECS

ROOT = Path(__file__).parents[3]
SCHEMA = ROOT / "docs" / "kaspr.schema.json"
BUNDLES = sorted(file for file in (ROOT / "bundles").glob("*/*.yaml") if not is_of_values(file.name))
# Values of every JSON type, among them empty ones and a duration.
OTHER_VALUES: tuple[Any, ...] = (None, True, 7, -1, "", "text", "5m", "STREAM", [], {}, ["text"], {"a": 1})

VALIDATOR = Draft7Validator(manifest_schema())
Data = dict[str, Any]


def documents(file: Path) -> Iterator[Data]:
    yield from (document for document in YAML(typ="safe", pure=True).load_all(file.read_text()) if document)


def every_field() -> Iterator[Data]:
    """A manifest of every kind, with all its fields."""
    for kind, spec in SPECS.items():
        fields = YAML(typ="safe", pure=True).load(spec)
        yield {"apiVersion": "kaspr.io/v1alpha1", "kind": kind, "metadata": {"name": "x"}, "spec": fields}


def changed(data: Any, values: Iterator[Any]) -> Iterator[Any]:
    """Copies of the data with one change each: another value, a field left out, or a misspelt name."""
    yield from itertools.islice(values, 3)
    if isinstance(data, dict):
        for name, value in data.items():
            without = {key: kept for key, kept in data.items() if key != name}
            yield without
            yield {**without, f"{name}s": value}
            yield from ({**data, name: other} for other in changed(value, values))
    if isinstance(data, list):
        for index, value in enumerate(data):
            yield from ([*data[:index], other, *data[index + 1 :]] for other in changed(value, values))


def error_types(data: Any) -> set[str]:
    """The types of the models' errors. PROBLEMS: a broken rule between fields, which the schema lacks."""
    try:
        MANIFEST.validate_python(data)
    except ValidationError as error:
        return {found["type"] for found in error.errors(include_url=False, include_context=False)}
    return set()


@pytest.mark.skipif(
    f"\npydantic=={VERSION} " not in (ROOT / "requirements-dev.lock").read_text(),
    reason="each version of pydantic writes it a little differently",
)
def test_the_published_schema_is_that_of_the_models() -> None:
    """If it fails, run ``kaspr-delta schema > docs/kaspr.schema.json``."""
    Draft7Validator.check_schema(manifest_schema())
    assert json.loads(SCHEMA.read_text()) == manifest_schema()


@pytest.mark.parametrize("file", BUNDLES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_manifests_of_the_bundles_are_valid_and_name_the_schema(file: Path) -> None:
    assert file.read_text().startswith("# yaml-language-server: $schema=../../docs/kaspr.schema.json\n")
    for document in documents(file):
        assert [error.message for error in VALIDATOR.iter_errors(document)] == []


@pytest.mark.parametrize("manifest", list(every_field()), ids=lambda manifest: manifest["kind"])
def test_the_schema_has_every_field_and_refuses_the_same_values_as_the_models(manifest: Data) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(manifest)] == []
    tried = refused = 0
    for other in changed(manifest, itertools.cycle(OTHER_VALUES)):
        tried += 1
        wrong = error_types(other)
        if wrong - {PROBLEMS}:
            refused += 1
            assert not VALIDATOR.is_valid(other), (wrong, other)
        elif not wrong:
            assert VALIDATOR.is_valid(other), other
    assert refused > tried / 4


@pytest.mark.parametrize("kind", list(KINDS))
def test_an_error_in_a_manifest_is_reported_for_its_own_kind(kind: str) -> None:
    manifest = {"apiVersion": "kaspr.io/v1alpha1", "kind": kind, "metadata": {"name": "x"}, "spec": {"no-such": 1}}
    messages = " ".join(error.message for error in VALIDATOR.iter_errors(manifest))
    assert "no-such" in messages
    assert "is not one of" not in messages
