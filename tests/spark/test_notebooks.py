"""The notebooks run and show the rows that they describe. They share one warehouse, as for their readers."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import nbformat
import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from tests.manifests import manifests
from tests.spark_line import IS_SPARK_4_0

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warehouse of all notebooks. The first one that runs fills it."""
    return tmp_path_factory.mktemp("notebooks")


def code(name: str) -> list[str]:
    cells = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells
    return [cell.source for cell in cells if cell.cell_type == "code"]


def execute(name: str, spark: SparkSession) -> dict[str, Any]:
    """Run the cells of a notebook in this process, with the session of all tests. Returns the names that it defines.

    The value of a cell's last expression is turned into text, and into HTML, as in a kernel.
    """
    names: dict[str, Any] = {"spark": spark}
    for number, cell in enumerate(code(name)):
        *statements, last = ast.parse(cell).body
        place = f"{name}, cell {number}"
        if not isinstance(last, ast.Expr):
            statements.append(last)
        exec(compile(ast.Module(statements, []), place, "exec"), names)  # noqa: S102  a notebook is there to be run
        if isinstance(last, ast.Expr):
            shown = eval(compile(ast.Expression(last.value), place, "eval"), names)  # noqa: S307
            repr(shown)
            getattr(shown, "_repr_html_", str)()
    return names


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs(path: Path) -> None:
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert not [cell.source for cell in cells if cell.outputs or cell.execution_count]


@pytest.fixture
def run(spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a notebook by its name."""
    monkeypatch.setenv("KASPR_DELTA_WAREHOUSE", str(warehouse))
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(NOTEBOOKS)
    return lambda name: execute(name, spark)


@pytest.mark.further
@pytest.mark.skipif(IS_SPARK_4_0, reason="open Spark 4.0 has no operator `:`")
def test_joined_tables_show_a_price_change_in_every_order_of_the_product(run: Any) -> None:
    names = run("explore_joined_tables")
    before, after = names["before"], names["after"]
    assert len(before) == len(after) > 1
    assert set(before["price"]) == {names["product"]["price"]}
    assert set(after["price"]) == {names["new_price"]}
    assert names["joined"].select("right.price").dtypes == [("price", "double")]


@pytest.mark.slow
@pytest.mark.skipif(IS_SPARK_4_0, reason="open Spark 4.0 has no operator `:`")
def test_joined_tables_of_another_application_are_explored(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, join = "KasprTable/stock: {}\nKasprTable/prices: {}", "{leftTable: stock, rightTable: prices, on: key}"
    (tmp_path / "shop.yaml").write_text(manifests("shop", f"{tables}\nKasprJoin/offers: {join}"))
    with Application.open(tmp_path, warehouse=tmp_path / "wh") as shop:
        shop.table("stock").put({"lamp": {"pieces": 3}})
        shop.table("prices").put({"lamp": {"price": 5}})
    monkeypatch.setenv("KASPR_DELTA_APPLICATION", str(tmp_path))
    monkeypatch.setenv("KASPR_DELTA_WAREHOUSE", str(tmp_path / "wh"))
    names = run("explore_joined_tables")
    assert names["joined"].select("right.price").collect() == [(5,)]
    assert (names["first"]["key"], names["report"], names["best_sellers"]) == ("lamp", None, None)


@pytest.mark.slow
def test_one_change_reaches_only_its_subscribers(run: Any) -> None:
    names = run("follow_one_change")
    assert len(names["subscribers"]) == len(names["enriched"]) == len(names["emitted"]) > 1
    assert set(names["changed"]["key"]) == set(names["subscribers"]["key"])
    joined = names["app"].join("orders-products-join")
    assert joined.get(names["order_id"])["left"]["product_id"] == names["other"]
    assert joined.explain(names["order_id"]).reasons[-1] == "The result is that of the rows as they are now."


@pytest.mark.slow
def test_the_time_travel_notebook_finds_a_mistake_and_repairs_it(run: Any) -> None:
    names = run("time_travel_and_repair")
    assert len(names["letters"]) == len(names["was"]) > 1
    assert set(names["now"]["price"].isna()) == {True}
    assert names["report"].dead_letters == names["repaired"].count() == names["rebuilt"].rows_out == 0


@pytest.mark.slow
def test_the_notebook_for_databricks_runs_on_a_laptop(run: Any) -> None:
    names = run("explore_on_databricks")
    assert names["app"].join("orders-products-join").get("O-notebook")["right"]["product_id"] == "P100"


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_kernel_runs_a_notebook(path: Path, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nbclient import NotebookClient

    monkeypatch.setenv("KASPR_DELTA_WAREHOUSE", str(warehouse))
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(NOTEBOOKS)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
