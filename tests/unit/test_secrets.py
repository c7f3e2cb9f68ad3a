from __future__ import annotations

import base64

import pytest

from kaspr_delta.errors import SetupError
from kaspr_delta.plan.definition.bindings import SecretPlan
from kaspr_delta.secrets import password_of
from tests.unit.workspace.server import FakeWorkspace

IN_A_SCOPE = SecretPlan("KAFKA_LOGIN_PASSWORD", "kafka-login", "password")


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABRICKS_RUNTIME_VERSION", "DATABRICKS_HOST", "DATABRICKS_TOKEN", "KAFKA_LOGIN_PASSWORD"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("secret", [SecretPlan("KAFKA_LOGIN_PASSWORD"), IN_A_SCOPE])
def test_a_password_in_the_environment_wins_over_the_secret_scope(
    secret: SecretPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_LOGIN_PASSWORD", "from here")
    assert password_of(secret) == "from here"


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        (SecretPlan("KAFKA_PASSWORD"), "the environment variable KAFKA_PASSWORD is not set"),
        (IN_A_SCOPE, "set the environment variable KAFKA_LOGIN_PASSWORD; on Databricks it comes from the secret scope"),
    ],
)
def test_a_missing_password_is_an_error_with_the_way_to_set_it(secret: SecretPlan, message: str) -> None:
    with pytest.raises(SetupError, match=message):
        password_of(secret)


def test_on_databricks_a_password_comes_from_the_secret_scope(workspace: FakeWorkspace) -> None:
    with pytest.raises(SetupError, match="the secret 'password' of scope 'kafka-login' cannot be read: /api/"):
        password_of(IN_A_SCOPE)
    workspace.secrets["password"] = base64.b64encode("geheim€".encode()).decode()
    assert password_of(IN_A_SCOPE) == "geheim€"
