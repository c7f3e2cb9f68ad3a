"""Foreign keys of typed tables: those that Spark computes instead of Python."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kaspr_delta.functions.column_paths import Picked
from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.definition.joins import ForeignKeyJoinPlan
from kaspr_delta.plan.definition.typed_joins import foreign_key_types, type_problems
from kaspr_delta.spec.ddl import columns_of
from kaspr_delta.spec.loader import load_text

MANIFESTS = """\
apiVersion: kaspr.io/v1alpha1
kind: KasprApp
metadata: {{name: shop}}
---
apiVersion: kaspr.io/v1alpha1
kind: KasprTable
metadata: {{name: left, labels: {{kaspr.io/app: shop}}}}
spec:
  schema: id STRING, text STRING, n BIGINT, day DATE, at TIMESTAMP, price DECIMAL(10, 2), share DOUBLE, yes BOOLEAN
  key: id
---
apiVersion: kaspr.io/v1alpha1
kind: KasprTable
metadata: {{name: right, labels: {{kaspr.io/app: shop}}}}
spec: {right}
---
apiVersion: kaspr.io/v1alpha1
kind: KasprJoin
metadata: {{name: both, labels: {{kaspr.io/app: shop}}}}
spec:
  leftTable: left
  rightTable: right
  extractor:
    python: |
      def fk(value):
          return {returned}
"""


def types_of(returned: str, right: str = "{schema: key STRING, key: key}") -> list[str]:
    plans, findings = build_plans(load_text(MANIFESTS.format(returned=returned, right=right), "m.yaml"))
    assert not findings
    join = plans[0].join("both")
    assert isinstance(join, ForeignKeyJoinPlan)
    assert not list(type_problems(plans[0], join))
    return [str(one) for one in foreign_key_types(plans[0], join)]


@pytest.mark.parametrize(
    "returned", ["value['text']", "f\"{value['n']}/{value['day']}/{value['text']}\"", "value['text'] + str(value['n'])"]
)
def test_text_of_columns_that_python_and_spark_spell_alike_is_computed_by_spark(returned: str) -> None:
    assert types_of(returned) == ["STRING"]
    assert types_of(returned, "{name: right}") == ["STRING"]  # the right table's keys are JSON


@pytest.mark.parametrize(
    "returned",
    [
        *(f"f\"{{value['{name}']}}\"" for name in ("at", "price", "share", "yes", "missing")),
        "value['text'] + value['n']",  # fails in Python
        "value['n'] + value['n']",  # is a number
    ],
)
def test_other_text_is_left_to_python(returned: str) -> None:
    assert types_of(returned) == []


def test_text_may_be_a_part_of_a_key() -> None:
    right = "{schema: 'n BIGINT, key STRING', key: [n, key]}"
    assert types_of("[value['n'], f\"{value['day']}\"]", right) == ["BIGINT", "STRING"]


def test_text_is_refused_for_a_key_of_another_type() -> None:
    manifests = MANIFESTS.format(returned="f\"{value['day']}/{value['n']}\"", right="{schema: key INT, key: key}")
    _, (refused,) = build_plans(load_text(manifests, "m.yaml"))
    assert "'{day}/{n}' of 'left' is STRING, and the key of 'right' is INT: they are never equal" in refused.message


def test_varchar_is_refused_in_a_schema() -> None:
    """Spark reports such a column as a STRING, so the table would never match its declaration."""
    manifests = MANIFESTS.format(returned="value['text']", right="{schema: key VARCHAR(3), key: key}")
    _, (refused,) = build_plans(load_text(manifests, "m.yaml"))
    assert refused.message == "column 'key' is VARCHAR(3): Spark has no VARCHAR but in tables"


OF_OTHERS = """\
apiVersion: kaspr.io/v1alpha1
kind: KasprApp
metadata: {name: shop}
---
apiVersion: kaspr.io/v1alpha1
kind: KasprTable
metadata: {name: lines, labels: {kaspr.io/app: shop}}
spec: {source: {table: main.shop.lines, key: [id]}}
---
apiVersion: kaspr.io/v1alpha1
kind: KasprTable
metadata: {name: orders, labels: {kaspr.io/app: shop}}
spec: {schema: "id STRING, day DATE", key: id}
---
apiVersion: kaspr.io/v1alpha1
kind: KasprJoin
metadata: {name: first, labels: {kaspr.io/app: shop}}
spec: {leftTable: lines, rightTable: orders, column: order, select: {columns: {line: left.id, day: right.day}}}
---
apiVersion: kaspr.io/v1alpha1
kind: KasprJoin
metadata: {name: second, labels: {kaspr.io/app: shop}}
spec: {leftTable: lines, rightTable: orders, column: order}
---
apiVersion: kaspr.io/v1alpha1
kind: KasprJoin
metadata: {name: of-columns, labels: {kaspr.io/app: shop}}
spec: {leftTable: first, rightTable: orders, column: line, select: {columns: {line: left.line, day: right.day}}}
---
apiVersion: kaspr.io/v1alpha1
kind: KasprJoin
metadata: {name: of-pairs, labels: {kaspr.io/app: shop}}
spec: {leftTable: second, rightTable: orders, column: left.order, select: {columns: {day: left.right.day}}}
"""


def test_types_are_not_checked_while_columns_of_a_table_are_unknown() -> None:
    (plan,), findings = build_plans(load_text(OF_OTHERS, "m.yaml"))
    assert not findings
    lines = plan.known_table("lines")
    assert lines.typed is not None
    seen = replace(lines, typed=replace(lines.typed, columns=columns_of("id STRING, order STRING")))
    known = replace(plan, tables=(seen, plan.known_table("orders")))
    right = plan.join("of-columns")
    assert isinstance(right, ForeignKeyJoinPlan)
    wrong = replace(right, picked=Picked.of_names(("lien",), several=False))
    assert not [*type_problems(plan, right), *type_problems(plan, wrong), *type_problems(known, right)]
    assert [misfit.message for misfit in type_problems(known, wrong)] == ["'first' has no column 'lien'"]
