from __future__ import annotations

import io
from pathlib import Path

import pytest

from kaspr_delta.runtime.applying import apply_manifests
from kaspr_delta.spec.loader import load_path
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.native.delta_rs import DeltaRs
from tests.folders import delta_rs
from tests.manifests import manifests
from tests.unit.cli.conftest import Kaspr
from tests.unit.control.test_dead_letters import VALUE, failed, on_topic

BUNDLE = Path(__file__).parents[3] / "bundles" / "order-system"


def test_retry_needs_no_spark_and_names_letters_that_cannot_be_retried(kaspr: Kaspr, tmp_path: Path) -> None:
    apply_manifests(Warehouse(str(tmp_path)), load_path(BUNDLE))
    delta = delta_rs(Warehouse(str(tmp_path)).namespace("order_system"))
    assert "there are no dead letters" in kaspr("dead-letters", "--retry", "--warehouse", tmp_path).err
    on_topic(delta, {"key": b'"O1"', "value": VALUE, "headers": None})
    failed(delta)
    failed(delta, key="gone")
    failed(delta, resource="join/orders-products-join", source="orders,products")
    other = kaspr("dead-letters", "--resource", "agent/other", "--retry", "--warehouse", tmp_path)
    assert (other.code, other.out) == (0, "")
    answer = kaspr("dead-letters", "--retry", "--warehouse", tmp_path)
    assert (answer.code, answer.out) == (0, "topic raw-orders: 1 record put there again\n")
    assert "agent/ingest-orders, key gone: its record is gone" in answer.err
    assert "join/orders-products-join: 1 cannot be retried by themselves. It is a row of a table" in answer.err
    assert delta.count("topic__raw_orders") == 2


def test_dead_letters_of_a_resource_that_is_not_there_are_an_error(kaspr: Kaspr, tmp_path: Path) -> None:
    apply_manifests(Warehouse(str(tmp_path)), load_path(BUNDLE))
    unknown = kaspr("dead-letters", "--resource", "agent/ingest-order", "--warehouse", tmp_path)
    assert (unknown.code, unknown.out) == (2, "")
    assert "agent/ingest-order" in unknown.err
    assert kaspr("dead-letters", "--resource", "agent/ingest-orders", "--warehouse", tmp_path).code == 0


OTHER = manifests("order-system", "KasprAgent/audit: {input: {topic: {name: raw-orders}}}")
OTHER_READERS = (
    "topic raw-orders is also read by agent/audit, which would get 1 record of agent/ingest-orders a second time"
)


@pytest.fixture
def two_readers(tmp_path: Path) -> DeltaRs:
    """A dead letter of a topic that another agent reads as well."""
    (tmp_path / "other.yaml").write_text(OTHER)
    warehouse = Warehouse(str(tmp_path / "wh"))
    for path in (BUNDLE, tmp_path / "other.yaml"):
        apply_manifests(warehouse, load_path(path))
    delta = delta_rs(warehouse.namespace("order_system"))
    on_topic(delta, {"key": b'"O1"', "value": VALUE, "headers": None})
    failed(delta)
    return delta


def test_without_a_terminal_the_retry_of_a_shared_record_needs_an_option(
    kaspr: Kaspr, tmp_path: Path, two_readers: DeltaRs
) -> None:
    answer = kaspr("dead-letters", "--retry", "--warehouse", tmp_path / "wh")
    assert (answer.code, answer.out) == (2, "")
    asked = "add --only-failed to retry each record only for the resource that failed on it, or --yes"
    assert f"{OTHER_READERS}: {asked}" in answer.err
    assert two_readers.count("topic__raw_orders") == 1


@pytest.mark.parametrize(
    ("option", "alone", "headers"),
    [
        ("--yes", "", []),
        (
            "--only-failed",
            ", each only for the resource that failed on it",
            [[{"key": "kaspr-retry-for", "value": b"agent/ingest-orders"}]],
        ),
    ],
)
def test_an_option_retries_the_record_for_all_readers_or_for_the_one_that_failed(  # noqa: PLR0917  fixtures, and the case
    kaspr: Kaspr, tmp_path: Path, two_readers: DeltaRs, option: str, alone: str, headers: list[object]
) -> None:
    answer = kaspr("dead-letters", "--retry", option, "--warehouse", tmp_path / "wh")
    assert (answer.code, answer.out) == (0, f"topic raw-orders: 1 record put there again{alone}\n")
    assert two_readers.count("topic__raw_orders") == 2
    assert [row["headers"] for row in two_readers.rows("topic__raw_orders") if row["headers"]] == headers


@pytest.mark.parametrize(("typed", "records"), [("n\n", 1), ("y\n", 2)])
def test_on_a_terminal_a_retry_for_all_readers_needs_confirmation(
    kaspr: Kaspr, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, two_readers: DeltaRs, *, typed: str, records: int
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(typed))
    answer = kaspr("dead-letters", "--retry", "--warehouse", tmp_path / "wh")
    assert f"{OTHER_READERS}." in answer.err
    assert "--only-failed" in answer.err
    assert answer.code == (0 if records > 1 else 1)
    assert two_readers.count("topic__raw_orders") == records


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--only-failed --warehouse wh", "--only-failed is for --retry"),
        ("--yes --warehouse wh", "--yes is for --retry"),
    ],
)
def test_options_of_a_retry_need_it(kaspr: Kaspr, arguments: str, message: str) -> None:
    answer = kaspr("dead-letters", *arguments.split())
    assert answer.code == 2
    assert message in answer.err
