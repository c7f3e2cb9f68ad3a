"""A changed manifest beside the rows of the former one: the resource waits, and says so in every command."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from kaspr_delta import Application
from kaspr_delta.storage.plan_tables import tables_kept_by
from tests.folders import delta_rs
from tests.manifests import manifests
from tests.unit.cli.conftest import Kaspr

TYPED = 'KasprTable/t: {key: [id], schema: "id BIGINT, n STRING"}'
PLAIN = "KasprTable/t: {}"
TYPED_AS_PLAIN = 'KasprTable/t: {key: [key], schema: "key STRING, value STRING, timestamp TIMESTAMP"}'
JOIN = """
KasprTable/l: {}
KasprTable/r: {}
KasprJoin/t: {leftTable: l, rightTable: r, extractor: {python: "def f(v): return v"}}
"""
ROWS = {TYPED: ["1", '{"n": "a"}'], PLAIN: ["1", "5"], TYPED_AS_PLAIN: ["k", '{"value": "v"}']}


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (TYPED, TYPED.replace("[id]", "[n]"), "its key was id and is n"),
        (TYPED, TYPED.replace("BIGINT", "STRING"), "column 'id' was BIGINT and is STRING"),
        (TYPED, PLAIN, "column 'key' is missing"),
        (PLAIN, TYPED, "column 'key' is gone"),
        (TYPED_AS_PLAIN, PLAIN, "it has columns of its own"),
        (PLAIN, "KasprTable/t: {keySerializer: raw}", "column 'key' was STRING and is BINARY"),
        (PLAIN, "KasprTable/t: {valueSerializer: raw}", "column 'value' was STRING and is BINARY"),
        (PLAIN, "KasprTable/t: {window: {tumbling: {size: 1m}}}", "column 'window_start' is missing"),
        (PLAIN, JOIN, "column 'value' is gone"),
    ],
)
def test_a_resource_whose_stored_table_has_another_form_waits_until_the_form_is_back(
    tmp_path: Path, kaspr: Kaspr, before: str, after: str, reason: str
) -> None:
    def apply(text: str) -> None:
        (tmp_path / "shop.yaml").write_text(manifests("shop", text))
        assert run("apply", "--prune", "-f", tmp_path / "shop.yaml").code == 0

    run = partial(kaspr, "--warehouse", tmp_path / "wh")
    kind = "join" if after == JOIN else "table"
    apply(before)
    assert run("table", "t", "put", *ROWS[before]).code == 0
    rows = run("table", "t", "dump").out
    apply(after)
    assert "False" in run("get", kind, "t").out
    described = " ".join(run("describe", kind, "t").out.split())
    assert reason in described
    assert f"kaspr-delta delete {kind} t --purge" in described
    if kind == "table":
        put = run("table", "t", "put", *ROWS[TYPED])
        assert (put.code, reason in " ".join(put.err.split())) == (2, True)
        assert "Traceback" not in put.err
    apply(before)
    assert run("table", "t", "dump").out == rows


@pytest.mark.parametrize("text", [TYPED, PLAIN])
def test_one_more_column_or_none_lets_nothing_wait(tmp_path: Path, kaspr: Kaspr, text: str) -> None:
    run = partial(kaspr, "--warehouse", tmp_path / "wh")
    for one in (text, text.replace("id BIGINT, n", "more INT, id BIGINT, n")):
        (tmp_path / "shop.yaml").write_text(manifests("shop", one))
        run("apply", "-f", tmp_path / "shop.yaml")
        assert "False" not in run("get", "tables").out
        if one == text:
            run("table", "t", "put", *ROWS[text])
    assert run("table", "t", "dump").code == 0


def test_a_join_of_tables_of_others_does_not_wait_for_its_own_results(tmp_path: Path, kaspr: Kaspr) -> None:
    for name in ("a", "b"):
        rows = pa.table({"id": pa.array(["1"]), "n": pa.array([1])})
        deltalake.write_deltalake(tmp_path / name, rows, configuration={"delta.enableChangeDataFeed": "true"})
    sides = "".join(f"KasprTable/{name}: {{source: {{table: {tmp_path / name}, key: [id]}}}}\n" for name in ("a", "b"))
    (tmp_path / "shop.yaml").write_text(
        manifests("shop", f"{sides}KasprJoin/ab: {{leftTable: a, rightTable: b, on: key}}")
    )
    with Application.open(tmp_path / "shop.yaml", warehouse=tmp_path / "wh") as app:
        delta = delta_rs(app.delta.namespace)
        join = app.plan.join("ab")
        assert join is not None
        for table, layout in tables_kept_by(app.plan, join.ref):
            delta.ensure(table, layout)
        assert delta.types(app.plan.join("ab").result)  # type: ignore[union-attr]
    shown = kaspr("--warehouse", tmp_path / "wh", "get", "joins").out
    assert "True" in shown
    assert "False" not in shown


@pytest.mark.parametrize(("content", "reason"), [("", "is an empty file"), ("no JSON", "cannot be read")])
def test_a_table_whose_newest_commit_is_damaged_is_not_ready(
    tmp_path: Path, kaspr: Kaspr, content: str, reason: str
) -> None:
    run = partial(kaspr, "--warehouse", tmp_path / "wh")
    (tmp_path / "shop.yaml").write_text(manifests("shop", PLAIN))
    run("apply", "-f", tmp_path / "shop.yaml")
    for row in ('{"a": 1}', '{"a": 2}'):
        assert run("table", "t", "put", "k", row).code == 0
    newest = max((tmp_path / "wh" / "shop" / "t" / "_delta_log").glob("*.json"))
    newest.write_text(content)
    assert "False" in run("get", "table", "t").out
    assert reason in " ".join(run("describe", "table", "t").out.split())
    if not content:  # Spark would tell of the other one
        put = run("table", "t", "put", "k", '{"a": 3}')
        assert (put.code, reason in " ".join(put.err.split())) == (2, True)
        assert newest.read_text() == content
