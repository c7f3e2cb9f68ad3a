"""Which manifests an application runs when it is opened with those of a folder that a deployment may change."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from kaspr_delta.application import Application
from kaspr_delta.errors import NotFoundError
from kaspr_delta.spec.revision import revision_of
from tests.manifests import manifests


def deployed(folder: Path, *tables: str) -> str:
    """Put manifests of tables in the place of others; their revision."""
    folder.mkdir(exist_ok=True)
    (folder / "shop.yaml").write_text(manifests("shop", "".join(f"KasprTable/{name}: {{}}\n" for name in tables)))
    return revision_of(folder, {})


def test_a_run_that_starts_after_another_deployment_runs_what_was_applied(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "shop"
    opened = partial(Application.open, folder, warehouse=tmp_path / "wh", app="shop", origin="bundles/shop")
    first = deployed(folder, "orders")
    assert [table.name for table in opened(revision=first).plan.tables] == ["orders"]
    second = deployed(folder, "orders", "products")
    assert [table.name for table in opened(revision=first).plan.tables] == ["orders"]
    assert "bundles/shop does not hold the manifests with which this run was deployed" in caplog.text
    (event,) = (one for one in opened()._registry.events() if one.reason == "OtherDeployment")
    assert (event.type, event.kind, event.name) == ("Warning", "KasprApp", "shop")
    deployed(folder, "orders")
    assert [table.name for table in opened(revision=first).plan.tables] == ["orders"]
    deployed(folder, "orders", "products")
    caplog.clear()
    assert [table.name for table in opened(revision=second).plan.tables] == ["orders", "products"]
    (folder / "shop.yaml").write_text("kind: OfANewerVersion\n")
    assert [table.name for table in opened(revision=second).plan.tables] == ["orders", "products"]
    (folder / "shop.yaml").unlink()
    assert [table.name for table in opened(revision=second).plan.tables] == ["orders", "products"]


def test_a_run_of_other_manifests_before_anything_was_applied_says_so(tmp_path: Path) -> None:
    revision = deployed(tmp_path / "shop", "orders")
    deployed(tmp_path / "shop", "orders", "products")
    with pytest.raises(NotFoundError, match="nothing was applied"):
        Application.open(tmp_path / "shop", warehouse=tmp_path / "wh", revision=revision)
    Application.open(tmp_path / "shop", warehouse=tmp_path / "wh").delete("table", "orders")
    Application.open(warehouse=tmp_path / "wh").delete("table", "products")
    with pytest.raises(NotFoundError, match=r"shop does not hold the manifests .* Nothing was"):
        Application.open(tmp_path / "shop", warehouse=tmp_path / "wh", app="shop", revision=revision)


def test_manifests_that_are_not_applied_hold_in_one_process_whatever_is_applied_meanwhile(tmp_path: Path) -> None:
    def opened(*, apply: bool) -> Application:
        return Application.open(tmp_path / "shop", warehouse=tmp_path / "wh", origin="bundles/shop", apply=apply)

    def applied() -> list[str]:
        return tables_of(Application.open(warehouse=tmp_path / "wh"))

    def tables_of(application: Application) -> list[str]:
        return [table.name for table in application.plan.tables]

    deployed(tmp_path / "shop", "orders", "returns")
    opened(apply=False)
    assert applied() == ["orders", "returns"]  # the first manifests of an application
    deployed(tmp_path / "shop", "orders", "products")
    alone = opened(apply=False)
    assert tables_of(alone) == ["orders", "products"]
    Application.open(warehouse=tmp_path / "wh").delete("table", "returns")
    alone._reload()
    assert tables_of(alone) == ["orders", "products"]
    assert applied() == ["orders"]
    opened(apply=True)
    alone._reload()  # they are applied, and others may follow
    deployed(tmp_path / "shop", "prices")
    opened(apply=True)
    alone._reload()
    assert tables_of(alone) == applied() == ["prices"]
