from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.unit.workspace.server import FakeWorkspace, serving, two_applications

# The duration of an example depends on the machine, not on the code.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")


@pytest.fixture
def workspace(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeWorkspace]:
    """A fake Databricks workspace with two applications. The environment points to it."""
    for name in ("DATABRICKS_CONFIG_PROFILE", "DATABRICKS_CLIENT_ID", "DATABRICKS_CLIENT_SECRET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DATABRICKS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("DATABRICKS_TOKEN", "a-token")
    fake = two_applications()
    with serving(fake) as address:
        monkeypatch.setenv("DATABRICKS_HOST", address)
        yield fake
