from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

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
def test_a_profile_leads_to_its_session() -> None:
    session: object = databricks_session("work")
    assert session == "a session"


@pytest.mark.usefixtures("databricks_connect")
def test_a_profile_that_gives_no_session_is_an_error_with_the_reason() -> None:
    with pytest.raises(SetupError, match=r"^profile 'home' gives no Spark session: profile home is not configured$"):
        databricks_session("home")


def test_without_databricks_connect_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "databricks.connect", None)
    with pytest.raises(SetupError, match=r"pip install 'kaspr-delta\[connect\]'"):
        Application.open(warehouse=UNITY, profile="work")


def test_a_profile_together_with_a_local_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name unity://"):
        Application.open(warehouse=tmp_path, profile="work")


def test_a_session_together_with_a_profile_is_refused() -> None:
    with pytest.raises(UsageError, match="both were given"):
        Application.open(warehouse=UNITY, profile="work", spark=object())  # type: ignore[arg-type]  # never looked at
