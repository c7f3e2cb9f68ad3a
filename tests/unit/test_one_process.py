from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.one_process import SparkInOneProcess

NOTHING: Any = None


@pytest.mark.parametrize(
    ("test", "scope"),
    [
        ("tests/spark/test_joins.py::test_a[x@y]", "spark"),
        ("tests/properties/test_twins.py::test_b", "spark"),
        ("tests/unit/test_language.py::test_c", "tests/unit/test_language.py::test_c"),
    ],
)
def test_tests_that_share_a_session_have_one_scope_and_others_one_each(test: str, scope: str) -> None:
    assert SparkInOneProcess._split_scope(NOTHING, test) == scope


def test_tests_on_spark_in_other_folders_are_slow_or_need_a_server() -> None:
    tests = Path(__file__).parents[1]
    others = {file.relative_to(tests).parts[0] for file in tests.rglob("test_*.py") if "mark.spark" in file.read_text()}
    assert others - {"spark", "properties"} <= {"chaos", "installed", "cluster", "s3", "unit"}
