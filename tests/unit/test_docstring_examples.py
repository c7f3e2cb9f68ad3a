from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import kaspr_delta

MODULES = sorted(module.name for module in pkgutil.walk_packages(kaspr_delta.__path__, "kaspr_delta."))


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_examples_in_docstrings_hold(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
