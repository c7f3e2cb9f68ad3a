"""The functions of docs/how-to.md, called as a run calls them. `tests/spark/test_guides.py` runs the whole page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kaspr_delta import Application
from kaspr_delta.errors import SetupError
from tests.documented import ROOT, blocks


@pytest.fixture
def recipes(tmp_path: Path) -> Application:
    """The application of all recipes that are files; of one that is written twice the later one."""
    for block in blocks(ROOT / "docs" / "how-to.md", "yaml"):
        if block.title:
            (tmp_path / Path(block.title).name).write_text(block.text)
    return Application.open(tmp_path, warehouse=tmp_path / "wh")


def test_a_summary_adds_up_the_rows_of_its_table(recipes: Application) -> None:
    add_up = recipes.function("task/summarize-sales", "add-up")
    sales = {"S1": {"amount": 250}, "S2": {"amount": 30}}
    assert add_up(None, sales) == {"sales": 2, "total": 280}


def test_a_sale_is_kept_and_passed_on(recipes: Application) -> None:
    sales: dict[str, Any] = {}
    sale = {"id": "S1", "customer": "C1", "amount": 250}
    assert recipes.function("agent/take-sales", "keep")(sale, sales) is sale
    assert sales == {"S1": sale}


def test_the_later_schema_has_one_more_column(recipes: Application) -> None:
    recipes.table("visits").put({"V2": {"country": "NO", "page": "shop"}})
    assert recipes.table("visits").to_dict() == {"V2": {"id": "V2", "country": "NO", "page": "shop"}}
    assert not recipes.plan.waiting


def test_a_row_for_a_column_that_the_table_lacks_yet_is_left_to_the_session_that_adds_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recipes = blocks(ROOT / "docs" / "how-to.md", "yaml")
    older, later = (block.text for block in recipes if block.title == "recipes/visits.yaml")

    def start(_: object, reason: str) -> Any:
        raise SetupError(reason)

    for text, row in ((older, {"page": "home"}), (later, {"country": "NO", "page": "shop"})):
        (tmp_path / "visits.yaml").write_text(text)
        app = Application.open(tmp_path / "visits.yaml", warehouse=tmp_path / "wh", starting=start)
        if text is older:
            app.table("visits").put({"V1": row})
        else:
            with pytest.raises(SetupError, match="delta-rs does not merge into 'visits'"):
                app.table("visits").put({"V2": row})
    assert not caplog.records
