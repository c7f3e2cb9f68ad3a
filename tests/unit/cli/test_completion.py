from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kaspr_delta.cli import application
from kaspr_delta.runtime.applying import apply_manifests
from kaspr_delta.spec.loader import load_path
from kaspr_delta.storage.namespace import Warehouse

ROOT = Path(__file__).parents[3]


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """A warehouse to which order-system was applied."""
    apply_manifests(Warehouse(str(tmp_path)), load_path(ROOT / "bundles" / "order-system"))
    return tmp_path


def completed(line: str) -> list[str]:
    """The completions that a shell offers for a command line."""
    environment = {"_KASPR_DELTA_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = CliRunner().invoke(application, [], prog_name="kaspr-delta", env=environment)
    assert "Traceback" not in done.output
    return done.output.split()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("run --only join/", ["join/orders-products-join"]),
        ("rebuild ", ["join/orders-products-join"]),
        ("produce raw-", ["raw-orders", "raw-products"]),
        ("consume orders", ["orders-products-joined"]),
        ("table orders", ["orders", "orders-products-join"]),
        ("dead-letters --resource agent/p", ["agent/process-enriched-orders"]),
        ("delete t", ["table", "task"]),
        ("delete agent ingest-p", ["ingest-products"]),
        ("table nobody", []),
    ],
)
def test_completion_offers_kinds_topics_and_applied_resources(warehouse: Path, typed: str, offered: list[str]) -> None:
    command, _, rest = typed.partition(" ")
    assert completed(f"kaspr-delta {command} --warehouse {warehouse} {rest}") == offered


def test_completion_reads_the_warehouse_of_the_environment(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KASPR_DELTA_WAREHOUSE", str(warehouse))
    assert completed("kaspr-delta status --app o") == ["order-system"]


def test_completion_without_a_readable_warehouse_offers_nothing(tmp_path: Path) -> None:
    assert completed(f"kaspr-delta produce --warehouse {tmp_path} raw") == []
    (tmp_path / "broken" / "_kaspr").mkdir(parents=True)
    (tmp_path / "broken" / "_kaspr_resources").write_text("no table")
    assert completed(f"kaspr-delta produce --warehouse {tmp_path} raw") == []
