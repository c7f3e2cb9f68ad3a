from __future__ import annotations

import pytest
from pydantic import ValidationError

from kaspr_delta.spec.agent import KasprAgent
from kaspr_delta.spec.fields import description_of, places_of, spec_at
from kaspr_delta.spec.join import JoinSpec, KasprJoin
from kaspr_delta.spec.manifest import MANIFEST
from kaspr_delta.spec.processors import Operation
from kaspr_delta.spec.topics import TopicSend


def test_models_are_found_through_lists_and_optional_fields() -> None:
    assert spec_at(KasprAgent, ("spec", "processors", "operations", 3)) is Operation
    assert spec_at(KasprAgent, ("spec", "processors", "operations", 3, "topicSend")) is TopicSend
    assert spec_at(KasprAgent, ("metadata", "labels", "any")) is None


def test_the_description_of_a_field_is_found_by_its_path() -> None:
    assert description_of(KasprJoin, ("spec", "leftTable")) == "the KasprTable whose rows drive the join"
    assert description_of(KasprJoin, ("spec", "nothing")) == ""


def test_all_places_of_a_field_are_found() -> None:
    assert list(places_of(KasprAgent, "paramName")) == ["spec.processors.operations.tables"]


def test_fields_are_written_by_their_kaspr_names_only() -> None:
    with pytest.raises(ValidationError):
        JoinSpec.model_validate({"left_table": "a", "right_table": "b", "extractor": {"python": "f = lambda v: v"}})


def test_manifests_are_frozen() -> None:
    app = MANIFEST.validate_python(
        {"apiVersion": "kaspr.io/v1alpha1", "kind": "KasprApp", "metadata": {"name": "shop"}}
    )
    with pytest.raises(ValidationError, match="frozen"):
        app.metadata.name = "other"
