from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.runtime.applying import only_plan
from kaspr_delta.runtime.doctor.probe import Answer
from kaspr_delta.runtime.doctor.sources import probes
from kaspr_delta.spec.loader import load_text
from kaspr_delta.storage.spark.description import Description
from tests.manifests import manifests
from tests.unit.runtime.doctor.fake import FakeRows, FakeTables, bench_on, with_faults

SOURCE = "sales.crm.Orders"


class WithSource(FakeTables):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.commits[SOURCE] = [[], []]


def no_time_travel(tables: FakeTables, _: Any, table: str, version: int | None = None) -> FakeRows:
    if version is not None:
        raise RuntimeError("time travel is not supported on a table with a row filter")
    return FakeTables.read(tables, _, table)


def plan_of(*sources: str) -> Plan:
    tables = "".join(
        f'KasprTable/t{number}: {{source: {{table: "{source}", key: [id]}}}}\n' for number, source in enumerate(sources)
    )
    return only_plan(load_text(manifests("shop", f"KasprApp/shop: {{}}\n{tables}"), "shop.yaml"), None)


def answers(folder: Path, **faults: Any) -> tuple[Answer, Answer]:
    """The answers of the probes of a source, and of its policies."""
    bench = bench_on(folder, with_faults(WithSource, **faults))
    source, policies = (probe.answer(bench, 9) for probe in probes(plan_of(SOURCE), in_catalog=True))
    return source, policies


def test_a_source_with_a_feed_and_without_policies_is_ok(tmp_path: Path) -> None:
    source, policies = answers(tmp_path)
    assert (source.grade, source.seen) == ("ok", "2 columns, version 1")
    assert (policies.grade, policies.seen) == ("ok", "none that can be seen")


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        ({"describe": lambda *_: None}, "'sales.crm.Orders', which it stands for, is not there"),
        ({"describe": lambda *_: Description("MANAGED", "delta")}, "its owner has to run ALTER TABLE"),
        ({"describe": lambda *_: Description("MANAGED", "delta", filters_rows=True)}, "has a row filter"),
        ({"columns": PermissionError("User does not have SELECT on Table 'sales'")}, "User does not have SELECT"),
        ({"read": no_time_travel}, "time travel is not supported"),
        ({"changes": RuntimeError("the feed of a table with a column mask")}, "the feed of a table with a column mask"),
    ],
)
def test_a_source_that_cannot_be_read_as_batches_read_it_is_a_problem(
    tmp_path: Path, fault: dict[str, Any], seen: str
) -> None:
    source, _ = answers(tmp_path, **fault)
    assert (source.grade, seen in source.seen) == ("problem", True), source
    assert source.effect == "resources that read it wait, and the run says why; the others run"


def test_policies_that_apply_to_a_source_are_a_note(tmp_path: Path) -> None:
    source, policies = answers(tmp_path, policies=lambda *_: ("by_region", "hide_mail"))
    assert (source.grade, policies.grade, policies.seen) == ("ok", "note", "these apply: by_region, hide_mail")


def test_each_source_is_probed_once_and_policies_only_where_there_are_some() -> None:
    plan = plan_of("sales.crm.orders", "/data/orders", "sales.crm.orders")
    names = [probe.name for probe in probes(plan, in_catalog=True)]
    assert names == ["source sales.crm.orders", "policies of sales.crm.orders", "source /data/orders"]
    assert [probe.name for probe in probes(plan, in_catalog=False)] == [
        "source sales.crm.orders",
        "source /data/orders",
    ]
