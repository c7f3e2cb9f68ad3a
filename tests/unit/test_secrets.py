from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from kaspr_delta.errors import SetupError
from kaspr_delta.plan.definition.bindings import SecretPlan
from kaspr_delta.secrets import password_of

IN_A_SCOPE = SecretPlan("KAFKA_LOGIN_PASSWORD", "kafka-login", "password")


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABRICKS_RUNTIME_VERSION", "DATABRICKS_HOST", "DATABRICKS_TOKEN", "KAFKA_LOGIN_PASSWORD"):
        monkeypatch.delenv(name, raising=False)


class WorkspaceHandler(BaseHTTPRequestHandler):
    """A fake workspace that answers requests for secrets."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path != "/api/2.0/secrets/get":
            self._answer(404, {"error_code": "ENDPOINT_NOT_FOUND", "message": url.path})
        elif parse_qs(url.query) == {"scope": ["kafka-login"], "key": ["password"]}:
            self._answer(200, {"key": "password", "value": base64.b64encode("geheim€".encode()).decode()})
        else:
            self._answer(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Secret does not exist"})

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self, code: int, body: dict[str, str]) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def workspace(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), WorkspaceHandler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    monkeypatch.setenv("DATABRICKS_HOST", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("DATABRICKS_TOKEN", "token")
    yield
    server.shutdown()
    thread.join()
    server.server_close()


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


@pytest.mark.usefixtures("workspace")
def test_on_databricks_a_password_comes_from_the_secret_scope() -> None:
    assert password_of(IN_A_SCOPE) == "geheim€"


@pytest.mark.usefixtures("workspace")
def test_a_missing_secret_is_an_error_with_its_name_and_scope() -> None:
    with pytest.raises(SetupError, match="the secret 'other' of scope 'kafka-login' cannot be read: Secret does not"):
        password_of(SecretPlan("KAFKA_LOGIN_OTHER", "kafka-login", "other"))
