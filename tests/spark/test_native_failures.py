"""An operation of delta-rs that fails unexpectedly: Spark does it, and the status shows the table and the cause."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kaspr_delta import Application
from kaspr_delta.cli import application as command_line
from kaspr_delta.storage.native import tables as native_tables
from kaspr_delta.storage.statistics import NativeFailure


def fails(*_: Any) -> Any:
    msg = "no such thing\nand more"
    raise ArithmeticError(msg)


def test_a_failed_merge_of_delta_rs_is_done_by_spark_and_shown_in_the_status(
    order_system: Callable[[], Application],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(native_tables, "merge", fails)
    app = order_system()
    app.topic("raw-products").produce([{"key": "P1", "value": {"price": 1}}])
    with caplog.at_level(logging.WARNING):
        app.run(only=["agent/ingest-products"])
    assert app.table("products").get("P1") == {"price": 1}
    failure = NativeFailure("merge", "products", "ArithmeticError: no such thing")
    assert app.status().native_failures == {failure: 1}
    assert "delta-rs failed at merge of table products, so Spark does it" in caplog.text
    shown = CliRunner().invoke(command_line, ["status", "-o", "wide", "--warehouse", str(tmp_path / "wh")])
    assert shown.exit_code == 0, shown.output
    (line,) = [line for line in shown.output.splitlines() if "ArithmeticError" in line]
    assert line.split() == ["merge", "products", "ArithmeticError:", "no", "such", "thing", "1"]
