"""Pages over Unity Catalog: as which user and how often they query the SQL warehouse, and what they show if it refuses.

tests/spark/test_catalog_pages.py runs the statements on Spark.
"""

from __future__ import annotations

import http.server
import logging
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import databricks.sdk
import httpx
import pytest
from databricks.sdk.errors import PermissionDenied
from databricks.sdk.service.sql import StatementState

from kaspr_delta.errors import SetupError
from kaspr_delta.runtime.applying import documents_in
from kaspr_delta.spec.loader import load_text
from kaspr_delta.storage.layout import DEAD_LETTERS
from kaspr_delta.storage.namespace import UnityNamespace
from kaspr_delta.storage.warehouse.reads import WarehousePageReads, WarehouseSystemTables
from kaspr_delta.storage.warehouse.sql_warehouse import SqlWarehouse
from kaspr_delta.web.access import Visitor
from kaspr_delta.web.past import Past
from kaspr_delta.web.server import web_application
from kaspr_delta.web.warehouse_store import client_of_visitor
from tests.serving import served_by_uvicorn
from tests.unit.web.conftest import manifest, view

NAMESPACE = UnityNamespace("main", "shop", "v")
MERGED = '{"numTargetRowsUpdated":"1","numOutputRows":"5","numTargetBytesAdded":"300","numTargetBytesRemoved":"200"}'
HISTORY = [
    ["2", "2024-05-01T10:00:00.123Z", "MERGE", MERGED],
    ["1", "2024-05-01 09:00:00", "STREAMING UPDATE", "{numOutputRows -> 4, numOutputBytes -> 700}"],
    ["0", "2024-05-01T08:00:00.1234567+02:00", "CREATE TABLE", None],
]
COMMIT = ("version", "timestamp", "operation", "operationMetrics")
SHOWN: dict[str, Any] = {
    "DESCRIBE HISTORY": (HISTORY, [(name, "STRING") for name in COMMIT]),
    "SHOW TABLES IN `main`.`shop`": ([["users"], ["v_users"]], [("tableName", "STRING")]),
    "SHOW VIEWS IN `main`.`shop`": ([["v_users"]], [("viewName", "STRING")]),
}
ROW = '{"key":"\\"u1\\"","value":"{}","timestamp":"2024-05-01T10:00:00.000001Z"}'
TOKEN = "the-token-of-a-visitor"  # noqa: S105


@dataclass
class Workspace:
    """A fake workspace client. The workspace has one table, ``users``; system tables are empty or missing."""

    missing: tuple[str, ...] = ()
    refusal: str = ""
    refuses: str = ""
    asked: list[str] = field(default_factory=list)
    config: Any = field(default_factory=lambda: SimpleNamespace(host="https://workspace.example"))

    @property
    def statement_execution(self) -> Workspace:
        return self

    def execute_statement(self, statement: str, warehouse_id: str, **_: Any) -> Any:
        assert warehouse_id == "w1"
        self.asked.append(statement)
        gone = next((name for name in self.missing if f"`{name}`" in statement), None)
        error = f"[TABLE_OR_VIEW_NOT_FOUND] The table or view `{gone}` cannot be found." if gone else self.refusal
        if error and self.refuses in statement:
            return self._answer([], error=error)
        for beginning, answer in SHOWN.items():
            if statement.startswith(beginning):
                return self._answer(*answer)
        if statement.endswith("LIMIT 0"):
            return self._answer([], [("key", "STRING"), ("value", "STRING"), ("timestamp", "TIMESTAMP")])
        if "(SELECT count(*)" in statement and "changed" not in statement:
            return self._answer([[f'{{"many":1,"one":{ROW}}}']])
        if statement.startswith("SELECT 'users', count(*)"):
            return self._answer([["users", "1"]])
        return self._answer([])

    @staticmethod
    def _answer(rows: Any, columns: Any = (), error: str = "") -> Any:
        state = StatementState.FAILED if error else StatementState.SUCCEEDED
        named = [SimpleNamespace(name=name, type_text=kind) for name, kind in columns]
        return SimpleNamespace(
            statement_id="s1",
            status=SimpleNamespace(state=state, error=SimpleNamespace(message=error)),
            manifest=SimpleNamespace(schema=SimpleNamespace(columns=named)),
            result=SimpleNamespace(data_array=rows, next_chunk_index=None),
        )


def reads(workspace: Workspace) -> WarehousePageReads:
    client: Any = workspace
    return WarehousePageReads(SqlWarehouse(client, "w1", NAMESPACE))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """The workspace client of the server itself."""
    workspace = Workspace()
    monkeypatch.setattr(databricks.sdk, "WorkspaceClient", lambda: workspace)
    return workspace


@pytest.fixture
def visitors(monkeypatch: pytest.MonkeyPatch) -> dict[str, Workspace]:
    """The newest workspace client of each visitor's token, in a Databricks App."""
    known: dict[str, Workspace] = {}

    def client(token: str) -> Workspace:
        known[token] = Workspace()
        return known[token]

    monkeypatch.setenv("DATABRICKS_APP_PORT", "8000")
    monkeypatch.setattr("kaspr_delta.web.warehouse_store.client_of_visitor", lambda _: client)
    return known


def application(*, behind_proxy: bool = False) -> Any:
    python = "def f(request, users): return users.get('u1') or 'none'"
    text = f"{manifest('KasprTable', 'users', 'name: users')}---\n{view('v', 'GET', '/u', python, tables='users')}"
    documents = documents_in(load_text(text, "m.yaml"), None)
    return web_application(NAMESPACE, documents=documents, sql_warehouse="w1", behind_proxy=behind_proxy)


@pytest.fixture
def client(server: Workspace) -> Iterator[httpx.Client]:
    with served_by_uvicorn(application()) as asking:
        server.asked.clear()
        yield asking


def test_a_page_needs_few_statements_with_bounded_results(server: Workspace, client: httpx.Client) -> None:
    for path, most in (("", 5), ("table/users", 10), ("table/users?version=1", 12), ("dead-letters", 2)):
        server.asked.clear()
        assert client.get(f"/ui/{path}").status_code == 200
        assert 0 < len(server.asked) <= most, server.asked
        for statement in server.asked:
            assert "LIMIT" in statement or "count(*) FROM" in statement or "_kaspr_resources" in statement, statement
    assert client.get("/ui/table/nothing").status_code == 404


def test_pages_show_rows_and_commits_and_refuse_retries(server: Workspace, client: httpx.Client) -> None:
    page = client.get("/ui/table/users").text
    assert "Committed 2024-05-01 10:00:00.123 UTC" in page
    assert "by merge: 1 rows changed" in page
    assert ">u1<" in page
    assert 'placeholder="all"' in page  # keys are text
    assert client.get("/ui/dead-letters/retry?resource=agent/a&letter=x").status_code == 404
    server.asked.clear()
    assert client.post("/ui/dead-letters/retry", data={"resource": "agent/a"}).status_code == 403
    assert server.asked == []


def test_before_the_first_run_pages_show_no_rows_and_no_dead_letters(server: Workspace, client: httpx.Client) -> None:
    server.missing = ("_kaspr_resources", "_kaspr_events", "_kaspr_progress", "_kaspr_dead_letters", "users")
    overview = client.get("/ui/").text
    assert "table/users" in overview
    page = client.get("/ui/table/users").text
    assert "<dt>Rows<dd>0" in page
    assert "Rows, now and then" not in page
    assert "None: all that came in" in client.get("/ui/dead-letters").text


def test_a_refused_statement_gives_a_page_with_the_reason(server: Workspace, client: httpx.Client) -> None:
    server.refusal = "no grant SELECT on <table>"
    answer = client.get("/ui/table/users")
    assert answer.status_code == 503
    assert "no grant SELECT on &lt;table&gt;" in answer.text


@pytest.mark.parametrize(
    ("refusal", "why"),
    [
        ("[FAILED_READ_FILE.FILE_NOT_EXIST] part-1", "VACUUM has removed them"),
        ("time travel is not for tables with row filters", "1 cannot be read: .* row filters. Choose a newer version"),
    ],
)
def test_if_older_versions_are_refused_the_newest_rows_are_shown(
    server: Workspace, client: httpx.Client, refusal: str, why: str
) -> None:
    server.refusal, server.refuses = refusal, "VERSION AS OF"
    newest = client.get("/ui/table/users").text
    assert ">u1<" in newest
    assert "cannot be read" not in newest
    old = client.get("/ui/table/users?version=1")
    assert old.status_code == 200
    assert re.search(f"Version {why}" if why[0] == "1" else why, old.text)
    assert ">u1<" not in old.text
    server.refuses = "table_changes"
    assert "change feed cannot be read here: " in client.get("/ui/table/users").text


def test_the_bytes_of_commits_and_the_tables_of_a_schema_are_known() -> None:
    workspace = Workspace()
    history = reads(workspace).history("users")
    found = [history.commit(version) for version in history.versions]
    assert [(one.bytes_added, one.bytes_removed) for one in found if one] == [(0, 0), (700, 0), (300, 200)]
    assert reads(workspace).tables() == ["users"]


def test_tables_are_counted_one_by_one_if_one_of_them_is_missing() -> None:
    workspace = Workspace(missing=("new",))
    assert reads(workspace).counts(["users", "new"]) == {"users": 1, "new": 0}
    assert len(workspace.asked) == 3
    assert reads(Workspace(refusal="no grant")).counts(["users"]) == {
        "users": "SQL warehouse w1 refuses a statement: no grant"
    }
    assert reads(workspace).counts([]) == {}


def test_commits_are_read_in_every_spelling_of_times_and_metrics() -> None:
    history = reads(Workspace()).history("users")
    assert (history.versions, history.newest_change) == (range(3), 2)
    commits = [history.commit(version) for version in history.versions]
    assert [commit.rows for commit in commits if commit] == [0, 4, 1]
    assert [commit.at for commit in commits if commit] == [
        datetime(2024, 5, 1, 6, 0, 0, 123_456, tzinfo=timezone.utc),
        datetime(2024, 5, 1, 9, tzinfo=timezone.utc),
        datetime(2024, 5, 1, 10, 0, 0, 123_000, tzinfo=timezone.utc),
    ]


def test_texts_of_a_visitor_are_escaped_in_statements() -> None:
    workspace = Workspace()
    WarehouseSystemTables(reads(workspace).warehouse).newest(DEAD_LETTERS, ["at"], 5, {"resource": "\\' OR true --"})
    Past.of(reads(workspace), "users").then(1, "\\' OR true --")
    asked = [statement for statement in workspace.asked if "OR true" in statement]
    assert len(asked) == 3
    for statement in asked:
        assert "\\\\\\' OR true --" in statement  # both are escaped: the backslash, and the quote behind it
        assert "(\\' OR" not in statement


def test_in_an_app_pages_are_read_as_the_visitor_and_views_as_the_server(
    server: Workspace, visitors: dict[str, Workspace], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with served_by_uvicorn(application(behind_proxy=True)) as asking:
        server.asked.clear()
        headers = {"x-forwarded-access-token": TOKEN}
        page = asking.get("/ui/table/users", headers=headers)
        assert ">u1<" in page.text
        assert page.headers["cache-control"] == "no-store"
        assert visitors[TOKEN].asked
        assert server.asked == []
        # Each request has its own client: no visitor gets rows that were read for another one.
        before = visitors.pop(TOKEN)
        asking.get("/ui/table/users", headers={"x-forwarded-access-token": "other"})
        assert set(visitors) == {"other"}
        assert len(visitors["other"].asked) == len(before.asked)
        assert server.asked == []
        assert asking.get("/u", headers=headers).status_code == 200
        assert len(server.asked) == 1
        server.asked.clear()
        assert asking.get("/ui/table/users").status_code == 200
        assert server.asked
        assert TOKEN not in page.text + caplog.text + repr(Visitor(token=TOKEN))


@pytest.mark.parametrize("why", ["no proxy is believed", "no Databricks App"])
def test_a_token_in_a_header_is_ignored_without_a_proxy_or_outside_an_app(
    server: Workspace, visitors: dict[str, Workspace], monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    if why == "no Databricks App":
        monkeypatch.delenv("DATABRICKS_APP_PORT")
    with served_by_uvicorn(application(behind_proxy=why == "no Databricks App")) as asking:
        server.asked.clear()
        assert asking.get("/ui/", headers={"x-forwarded-access-token": TOKEN}).status_code == 200
        assert server.asked
        assert visitors == {}


def test_a_token_without_permission_is_an_error_with_the_reason() -> None:
    workspace = Workspace()
    denied = PermissionDenied("the token lacks the scope sql")
    workspace.execute_statement = lambda *_, **__: (_ for _ in ()).throw(denied)  # type: ignore[method-assign]
    with pytest.raises(SetupError, match="w1 cannot be asked: the token lacks the scope sql"):
        reads(workspace).history("users")


class NotFoundHandler(http.server.BaseHTTPRequestHandler):
    """Answers each request with status 404."""

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


def test_a_visitors_client_uses_their_token_and_not_the_servers_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABRICKS_CLIENT_ID", "server")
    monkeypatch.setenv("DATABRICKS_CLIENT_SECRET", "of the server")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), NotFoundHandler) as workspace:
        threading.Thread(target=workspace.serve_forever, args=(0.05,), daemon=True).start()
        made = client_of_visitor(f"http://127.0.0.1:{workspace.server_port}")(TOKEN)
        assert made.config.authenticate() == {"Authorization": f"Bearer {TOKEN}"}
        assert TOKEN not in repr(made) + repr(made.config)
        workspace.shutdown()
