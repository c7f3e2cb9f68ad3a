from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import kaspr_delta

MODULES = sorted(module.name for module in pkgutil.walk_packages(kaspr_delta.__path__, "kaspr_delta."))


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_examples_in_docstrings_hold(name: str) -> None:
    documented = doctest.DocTestFinder().find(importlib.import_module(name))
    # As `doctest.testmod`, which spends most of its time on docstrings without examples.
    assert sum(doctest.DocTestRunner().run(one).failed for one in documented if one.examples) == 0
