"""Answers of web views over HTTP."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from kaspr_delta.storage.layout import table_layout
from tests.folders import append_rows
from tests.unit.web.conftest import Serving, manifest, plan_of, view, wait_for

USERS = manifest("KasprTable", "users", "name: users")


def test_s1_7_a_view_returns_a_row_or_an_error_for_an_unknown_key(serving: Serving) -> None:
    lookup = """
    def lookup(value, users):
        user_id = value["user_id"]
        return users.get(user_id, {"error": "not found"})
    """
    with serving(USERS, view("lookup", "GET", "/user/{user_id}", lookup, tables="users", response="")) as shop:
        shop.put(plan_of(shop, "users"), {"u1": {"channel": "sms"}})
        wait_for(lambda: "channel" in shop.client.get("/user/u1").text)
        known, unknown = shop.client.get("/user/u1"), shop.client.get("/user/u2")
        assert (known.status_code, known.json()) == (200, {"channel": "sms"})
        assert (unknown.status_code, unknown.json()) == (200, {"error": "not found"})
        assert known.headers["content-type"] == "application/json"


def test_path_parameters_are_text_in_arguments_and_in_the_request(serving: Serving) -> None:
    both = """
    async def both(request, region, product_id):
        return [request["region"], region, product_id, request.match_info["product_id"], request.path]
    """
    with serving(view("v", "GET", "/{region}/products/{product_id:[0-9]+}", both)) as shop:
        assert shop.client.get("/eu/products/7").json() == ["eu", "eu", "7", "7", "/eu/products/7"]
        assert shop.client.get("/a%2Fb%20%C3%BC/products/7").json()[0] == "a/b ü"
        assert shop.client.get("/eu/products/x").status_code == 404
        assert shop.client.get("/%FF/products/7").status_code == 400


def test_the_request_has_its_method_query_headers_and_body(serving: Serving) -> None:
    tell = """
    async def tell(request):
        seen = [request.method, request.query.get("a"), request.query.getall("a"), request.query_string]
        return [*seen, request.headers["X-Who"], await request.json(), await request.text(), len(await request.read())]
    """
    with serving(view("v", "POST", "/tell", tell)) as shop:
        said = shop.client.post("/tell?a=1&a=2", json={"k": "ü"}, headers={"x-who": "me"}).json()
        assert said == ["POST", "1", ["1", "2"], "a=1&a=2", "me", {"k": "ü"}, '{"k":"ü"}', 10]


def test_a_body_that_is_not_json_is_answered_with_400(serving: Serving) -> None:
    with serving(view("v", "POST", "/v", "async def f(request): return await request.json()")) as shop:
        for body in (b"{", b"", b"\xff"):
            refused = shop.client.post("/v", content=body)
            assert refused.status_code == 400
            assert "the body is" in refused.json()["message"]


PROBLEM, JSON, TEXT, HTML = "application/problem+json", "application/json", "text/plain", "text/html"
BYTES = "application/octet-stream"


@pytest.mark.parametrize(
    ("function", "response", "expected"),
    [
        ("return {'a': 1}", "", (200, JSON, '{"a":1}')),
        ("return 'text'", "", (200, f"{TEXT}; charset=utf-8", "text")),
        ("return None", "", (200, f"{TEXT}; charset=utf-8", "")),
        ("return b'bytes'", "", (200, BYTES, "bytes")),
        ("return None", f"contentType: {JSON}", (200, JSON, "null")),
        ("return 'text'", f"contentType: {JSON}", (200, JSON, '"text"')),
        ("return '<p>'", f"contentType: {HTML}", (200, f"{HTML}; charset=utf-8", "<p>")),
        ("return b'x'", f"contentType: {BYTES}", (200, BYTES, "x")),
        ("return {}", f"contentType: {HTML}", (500, JSON, "the body of a text/html response is text, not dict")),
        ("return 1", "headersSelector: {onSuccess: {python: 'def h(v): return {1: \"\\n\"}'}}", (500, JSON, "can")),
        ("1 / 0", "bodySelector: {onError: {python: 'def b(error): return error[0]'}}", (500, PROBLEM, "failed too")),
        *(
            (f"yield 1\n  raise {name}", "", (500, JSON, f'"message":"{name}"'))
            for name in ("SystemExit", "KeyboardInterrupt", "GeneratorExit")
        ),
    ],
)
def test_the_content_type_decides_how_the_value_is_written_and_errors_are_answered_with_500(
    serving: Serving, function: str, response: str, expected: tuple[int, str, str]
) -> None:
    with serving(view("v", "GET", "/v", f"def f(request):\n  {function}", response=response)) as shop:
        answer = shop.client.get("/v")
        status, content_type, text = expected
        assert (answer.status_code, answer.headers["content-type"]) == (status, content_type)
        assert text in answer.text if status == 500 else text == answer.text
        assert "Traceback" not in answer.text


def test_a_view_does_not_set_headers_that_the_server_sets(serving: Serving) -> None:
    response = 'headers: {Content-Length: "1", X-Shop: "1"}'
    with serving(view("v", "GET", "/v", "def f(request): return 'text'", response=response)) as shop:
        answer = shop.client.get("/v")
        assert (answer.text, answer.headers["content-length"], answer.headers["x-shop"]) == ("text", "4", "1")


SELECTORS = """
contentType: application/json
headers: {X-Shop: "1"}
bodySelector:
  onSuccess: {python: "def body(value): return {'ok': value}"}
  onError: {python: "def body(error): return {'failed': error['message'], 'in': error['operation']}"}
statusCodeSelector:
  onSuccess: {python: "def status(value): return 201"}
  onError: {python: "def status(error): return 418"}
"""


def test_selectors_make_status_and_body_of_success_and_error(serving: Serving) -> None:
    divide = "def divide(request, by): return 10 / int(by)"
    with serving(view("v", "GET", "/v/{by}", divide, response=SELECTORS)) as shop:
        good, bad = shop.client.get("/v/5"), shop.client.get("/v/0")
        assert (good.status_code, good.json(), good.headers["x-shop"]) == (201, {"ok": 2.0}, "1")
        assert (bad.status_code, bad.headers["x-shop"]) == (418, "1")
        assert bad.json() == {"failed": "division by zero", "in": "answer"}


def test_selectors_make_headers_of_success_and_error(serving: Serving) -> None:
    response = """
    headersSelector:
      onSuccess: {python: "def h(value): return {'X-A': value, 'Content-Type': 'text/csv'}"}
      onError: {python: "def h(error): return [('X-B', 'failed')]"}
    """
    python = "def f(request): return {'a': 'yes'}[request.query['k']]"
    with serving(view("v", "GET", "/v", python, response=response)) as shop:
        good, bad = shop.client.get("/v?k=a"), shop.client.get("/v?k=b")
        assert (good.headers["x-a"], good.headers["content-type"]) == ("yes", "text/csv")
        assert (bad.status_code, bad.headers["x-b"]) == (500, "failed")


def test_trap_23_the_last_value_of_a_generator_is_the_body(serving: Serving) -> None:
    with serving(view("v", "GET", "/v", "def f(request):\n    yield from 'abc'")) as shop:
        assert shop.client.get("/v").text == "c"


def test_trap_24_an_error_has_status_500_or_the_one_of_its_exception(
    serving: Serving,
) -> None:
    python = """
    def f(request):
        class Refused(Exception):
            status_code, code, details = 409, "taken", {"by": "you"}

        raise Refused("no") if "own" in request.query else ValueError("bad")
    """
    with serving(view("v", "GET", "/v", python, response="statusCode: 202")) as shop:
        assert shop.client.get("/v").status_code == 500
        assert shop.client.get("/v").json() == {"operation": "answer", "message": "bad", "cause": "ValueError: bad"}
        refused = shop.client.get("/v?own")
        assert refused.status_code == 409
        assert refused.json()["code"] == "taken"
        assert refused.json()["details"] == {"by": "you"}


PIPELINE = """
name: v
request: {method: GET, path: /v}
processors:
  pipeline: [PIPE]
  init: {python: "from datetime import datetime\\ncalls = []"}
  operations:
  - {name: keep, filter: {python: "def f(request): return 'keep' in request.query"}}
  - {name: first, map: {python: "def f(request):\\n    calls.append(1)\\n    return len(calls)"}}
  - {name: second, map: {python: "def f(value): return [value, str(datetime(2020, 1, 1).date())]"}}
"""


@pytest.mark.parametrize(
    ("pipe", "query", "expected"),
    [("", "", ""), ("keep, first", "", ""), ("keep, first, second", "?keep", [1, "2020-01-01"]), ("first", "", 1)],
)
def test_a_dropped_request_has_an_empty_answer_and_operations_see_init(
    serving: Serving, pipe: str, query: str, expected: Any
) -> None:
    with serving(manifest("KasprWebView", "v", PIPELINE.replace("PIPE", pipe))) as shop:
        answer = shop.client.get(f"/v{query}")
        assert answer.status_code == 200
        assert (answer.json() if answer.text else "") == expected


def test_a_method_and_the_path_with_more_literal_text_choose_the_view(serving: Serving) -> None:
    paths = {"root": ("GET", "/"), "one": ("GET", "/user/me"), "all": ("GET", "/user/{id}"), "put": ("PUT", "/user/me")}
    views = (view(name, method, path, f"def f(request): return '{name}'") for name, (method, path) in paths.items())
    with serving(*views) as shop:
        asked = [shop.client.request(method, path.format(id="you")).text for method, path in paths.values()]
        assert asked == list(paths)
        refused = shop.client.delete("/user/me")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, PUT")
        assert refused.headers["content-type"] == PROBLEM
        head = shop.client.head("/user/me")
        assert (head.status_code, head.text, head.headers["content-length"]) == (200, "", "3")
        assert shop.client.get("/nothing").json()["status"] == 404


def test_tables_are_read_only_in_views(serving: Serving) -> None:
    python = "def f(request, users): users['u1'] = {}"
    with serving(USERS, view("v", "POST", "/v", python, tables="users")) as shop:
        answer = shop.client.post("/v")
        assert answer.status_code == 500
        assert "table 'users' cannot be written here" in answer.json()["message"]


def test_a_view_without_its_table_answers_503_with_the_reason(serving: Serving) -> None:
    with serving(view("v", "GET", "/v", "def f(request, users): return 1", tables="users")) as shop:
        answer = shop.client.get("/v")
        assert answer.status_code == 503
        assert answer.json()["detail"] == "webview/v waits: table 'users' is not there"


@pytest.mark.parametrize(
    ("python", "message"),
    [
        ("def f(request):\n    while True: pass", "took longer"),
        ("import time\ndef f(request): time.sleep(1)", "webview/e has not answered in time"),
    ],
    ids=["endless", "blocked outside Python"],
)
def test_a_late_function_is_answered_with_504_and_holds_up_its_own_request_only(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, python: str, message: str
) -> None:
    monkeypatch.setattr("kaspr_delta.web.asgi.PATIENCE", 5 if "while" in python else 0.2)
    app = manifest("KasprApp", "shop", "config: {eventTimeout: 200ms}").replace("  labels: {kaspr.io/app: shop}\n", "")
    with serving(app, view("e", "GET", "/e", python), view("v", "GET", "/v", "def f(request): return 'fine'")) as shop:
        late = shop.client.get("/e")
        assert (late.status_code, message in late.text) == (504, True)
        assert shop.client.get("/v").text == "fine"
        wait_for(lambda: "webview/e failed" in caplog.text)  # its thread ends here, not in another test


def test_a_request_body_over_10_mib_is_refused(serving: Serving) -> None:
    with serving(view("v", "POST", "/v", "async def f(request): return len(await request.read())")) as shop:
        assert shop.client.post("/v", content=b"x" * 10 * 2**20).text == str(10 * 2**20)
        assert shop.client.post("/v", content=b"x" * (10 * 2**20 + 1)).status_code == 413


def test_only_a_trusted_proxy_names_the_user_of_a_request(serving: Serving) -> None:
    who = view("v", "GET", "/v", "def f(request): return request.user")
    asked = {"x-forwarded-email": "ann@example.org"}
    with serving(who) as shop:
        assert shop.client.get("/v", headers=asked).text == ""
    with serving(behind_proxy=True) as shop:
        assert shop.client.get("/v", headers=asked).text == "ann@example.org"


def test_a_view_reads_the_windows_of_the_present_time(serving: Serving) -> None:
    counts = manifest("KasprTable", "counts", "name: counts\nwindow: {tumbling: {size: 1h}}")
    python = "def f(request, counts, key): return [counts.get(key), counts[key].delta(3600), len(counts)]"
    with serving(counts, view("v", "GET", "/v/{key}", python, tables="counts")) as shop:
        now = datetime.now(timezone.utc)
        hour = now.replace(minute=0, second=0, microsecond=0)
        rows = [
            {"key": '"a"', "value": str(count), "timestamp": now, "window_start": start, "window_end": start}
            for count, start in ((5, hour), (4, hour - timedelta(hours=1)), (3, hour + timedelta(hours=1)))
        ]
        append_rows(shop.delta, "counts", table_layout(plan_of(shop, "counts")), *rows)
        seen = wait_for(lambda: (answer := shop.client.get("/v/a")).status_code == 200 and answer.json())
        assert seen in ([5, 4, 1], [3, 5, 1])  # the second if the hour has just ended
