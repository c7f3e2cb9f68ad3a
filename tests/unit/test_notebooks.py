"""The parameters of the notebooks, which stand in their first cell of code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.documented import ROOT

NOTEBOOKS = ROOT / "notebooks"
ANY_APPLICATION = ("explore_joined_tables",)


def parameters(name: str) -> dict[str, Any]:
    """The names that the first cell of code defines."""
    cells = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells
    first = next(cell.source for cell in cells if cell.cell_type == "code")
    names: dict[str, Any] = {}
    exec(compile(first, name, "exec"), names)  # noqa: S102  a notebook is there to be run
    return names


@pytest.mark.parametrize("name", ANY_APPLICATION)
def test_an_environment_variable_names_the_application_of_a_notebook(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(NOTEBOOKS)
    monkeypatch.delenv("KASPR_DELTA_APPLICATION", raising=False)
    without = parameters(name)
    assert (without["application"], without["is_example"]) == (ROOT / "bundles" / "order-system", True)
    monkeypatch.setenv("KASPR_DELTA_APPLICATION", str(tmp_path))
    named = parameters(name)
    assert (named["application"], named["is_example"]) == (tmp_path, False)
    monkeypatch.setenv("KASPR_DELTA_APPLICATION", "../bundles/order-system")
    assert parameters(name)["is_example"]


def test_the_list_of_notebooks_for_any_application_is_whole() -> None:
    texts = {path.stem: path.read_text() for path in NOTEBOOKS.glob("*.ipynb")}
    assert {name for name, text in texts.items() if "KASPR_DELTA_APPLICATION" in text} == set(ANY_APPLICATION)
