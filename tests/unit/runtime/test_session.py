from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from kaspr_delta import Application
from kaspr_delta.errors import SetupError, UsageError
from kaspr_delta.runtime.session import databricks_session

UNITY = "unity://main.shop/checkpoints"


class Builder:
    """The session builder of databricks-connect, with one configured profile."""

    def profile(self, name: str) -> Builder:
        if name != "work":
            msg = f"profile {name} is not configured\nand much more"
            raise ValueError(msg)
        return self

    def getOrCreate(self) -> str:  # noqa: N802  Spark's name
        return "a session"


@pytest.fixture
def databricks_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("databricks.connect")
    module.DatabricksSession = type("DatabricksSession", (), {"builder": Builder()})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "databricks.connect", module)


@pytest.mark.usefixtures("databricks_connect")
def test_a_profile_leads_to_its_session_or_to_an_error_with_the_reason() -> None:
    session: object = databricks_session("work")
    assert session == "a session"
    with pytest.raises(SetupError, match=r"^profile 'home' gives no Spark session: profile home is not configured$"):
        databricks_session("home")


@pytest.mark.parametrize(
    ("warehouse", "session", "message"),
    [
        (UNITY, None, r"pip install 'kaspr-delta\[connect\]'"),
        ("folder", None, "name unity://"),
        (UNITY, object(), "both were given"),
    ],
)
def test_a_profile_needs_databricks_connect_and_a_catalog_and_no_other_session(
    monkeypatch: pytest.MonkeyPatch, warehouse: str, session: Any, message: str
) -> None:
    monkeypatch.setitem(sys.modules, "databricks.connect", None)
    with pytest.raises((SetupError, UsageError), match=message):
        Application.open(warehouse=warehouse, profile="work", spark=session)
