from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pyspark import cloudpickle

from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.runtime.resources import run_of
from kaspr_delta.spec.loader import load_text
from kaspr_delta.storage.namespace import LocalNamespace
from kaspr_delta.storage.opening import open_tables

SHAPES = Path(__file__).parents[2] / "spark" / "applications" / "shapes.yaml"
PLAN = build_plans(load_text(SHAPES.read_text(), "shapes.yaml"))[0][0]


@pytest.mark.parametrize("ref", PLAN.runs, ids=str)
def test_a_resource_can_be_sent_to_another_process(ref: ResourceRef, tmp_path: Path) -> None:
    resource = run_of(open_tables(LocalNamespace(tmp_path, "shapes", "shapes")), PLAN, ref).resource
    again = pickle.loads(cloudpickle.dumps(resource))  # type: ignore[no-untyped-call]  # noqa: S301  our own
    assert type(again) is type(resource)
    assert (again.ref, again.log_table, again.definition) == (ref, resource.log_table, resource.definition)
