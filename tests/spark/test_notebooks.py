from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs(path: Path) -> None:
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert not [cell.source for cell in cells if cell.outputs or cell.execution_count]


@pytest.mark.spark
def test_the_notebook_on_joined_tables_shows_a_price_change_in_every_order_of_the_product(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KASPR_DELTA_WAREHOUSE", str(tmp_path / "warehouse"))
    notebook = nbformat.read(NOTEBOOKS / "explore_joined_tables.ipynb", as_version=4)
    notebook.cells.append(
        new_code_cell(
            "assert len(before) == len(after) > 1\n"
            "assert set(before['price']) == {product['price']}\n"
            "assert set(after['price']) == {new_price}"
        )
    )
    resources = {"metadata": {"path": str(NOTEBOOKS)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
