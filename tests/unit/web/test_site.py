"""Web views that send to topics; metrics, status, OpenAPI, and changes of manifests while the server runs."""

from __future__ import annotations

import re
import socket
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kaspr_delta.control.documents import without
from kaspr_delta.control.figures import plan_and_figures
from kaspr_delta.errors import NotFoundError, UsageError
from kaspr_delta.runtime.applying import apply_manifests, registry_of
from kaspr_delta.spec.loader import load_path
from kaspr_delta.storage.layout import TOPICS
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.web.server import Address, listener_at, web_application
from tests.unit.web.conftest import ROOT, Serving, Shop, manifest, plan_of, served, view, wait_for

USERS = manifest("KasprTable", "users", "name: users")
LOOKUP = view("lookup", "GET", "/user/{id}", "def f(request, users): return users.get(request['id'])", tables="users")


def sends(shop: Shop, topic: str) -> list[tuple[Any, Any]]:
    rows = shop.delta.rows(f"topic__{topic}")
    return [(row["key"], row["value"]) for row in sorted(rows, key=lambda row: row["seq"])]


PUBLISHER = """
name: topic-publisher
request: {method: POST, path: "/topics/{topic}"}
response:
  contentType: application/json
  statusCode: 202
processors:
  pipeline: [read, publish]
  operations:
  - name: read
    map:
      python: |
        async def read(request, topic):
            for item in (await request.json())["content"]:
                yield {"topic": topic, **item}
  - name: publish
    topicSend:
      nameSelector: {python: "def name(item): return item['topic']"}
      keySelector: {python: "def key(item): return item['key']"}
      valueSelector: {python: "def value(item): return item['value']"}
"""


def test_d_6_posted_records_are_on_their_topic_before_the_response(serving: Serving) -> None:
    with serving(manifest("KasprWebView", "topic-publisher", PUBLISHER)) as shop:
        content = [{"key": "k", "value": {"a": 1}}, {"key": "l", "value": None}]
        answer = shop.client.post("/topics/t1", json={"content": content})
        assert (answer.status_code, answer.text) == (202, "null")
        assert sends(shop, "t1") == [(b'"k"', b'{"a":1}'), (b'"l"', None)]
        assert [row["name"] for row in shop.delta.rows(TOPICS)] == ["t1"]
        refused = shop.client.post("/topics/t1", json={"content": [{"key": "k", "value": 1}, {"key": "x"}]})
        assert (refused.status_code, refused.json()["message"]) == (500, "'value'")
        assert len(sends(shop, "t1")) == 2
        sent = re.search(
            r'kaspr_topic_messages_sent_total{.*topic="topic.t1".*} (.*)', shop.client.get("/metrics").text
        )
        assert sent is not None
        assert float(sent[1]) == 2


def test_a_topic_that_a_function_named_has_a_page_and_is_listed(serving: Serving) -> None:
    with serving(manifest("KasprWebView", "topic-publisher", PUBLISHER)) as shop:
        assert shop.client.get("/ui/topic/t1").status_code == 404
        shop.client.post("/topics/t1", json={"content": [{"key": "k", "value": {"a": "first"}}]})
        page = shop.client.get("/ui/topic/t1")
        assert page.status_code == 200
        assert "first" in page.text
        assert "topic/t1" in shop.client.get("/ui").text
        assert "topic/t1" in shop.client.get("/ui/search?find=t1").text
        registry = registry_of(Warehouse(str(shop.folder)), "shop")
        plan, figures = plan_and_figures(registry, registry.documents())
        assert plan is not None
        assert [(topic.name, figures.rows(topic.delta_name)) for topic in plan.topics] == [("t1", 1)]


def test_a_view_whose_records_cannot_be_written_answers_503(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("kaspr_delta.web.outbox.Outbox.send", refuse)
    with serving(manifest("KasprWebView", "topic-publisher", PUBLISHER)) as shop:
        answer = shop.client.post("/topics/t1", json={"content": [{"key": "k", "value": 1}]})
        assert answer.status_code == 503
        assert answer.json()["detail"].endswith("topic-publisher sends cannot be written now")


def test_d_7_a_later_operation_gets_a_path_parameter_through_the_value(serving: Serving) -> None:
    """In Kaspr only the first operation gets path parameters. Its value passes them on."""
    spec = """
    request: {method: PUT, path: "/{region}/products"}
    processors:
      pipeline: [read, publish]
      operations:
      - name: read
        map: {python: "async def read(request, region): return {**await request.json(), 'region': region}"}
      - name: publish
        topicSend:
          name: products
          ack: true
          passThrough: true
          keySelector: {python: "def key(value): return value['id']"}
    """
    with serving(manifest("KasprWebView", "enriched-publisher", spec)) as shop:
        value, about = shop.client.put("/eu/products", json={"id": "P1"}).json()
        assert value == {"id": "P1", "region": "eu"}
        assert about["topic"] == "products"
        assert sends(shop, "products") == [(b'"P1"', b'{"id":"P1","region":"eu"}')]


def test_d_8_an_unknown_product_gives_the_error_body_of_the_view(serving: Serving) -> None:
    response = """
    contentType: application/json
    bodySelector:
      onError: {python: "def body(error): return {'error': 'no such product', 'asked': error['message']}"}
    """
    lookup = "def f(request, products, product_id): return {'id': product_id, **products[product_id]}"
    products = manifest("KasprTable", "products", "name: products")
    known = view("v", "GET", "/products/{product_id}", lookup, tables="products", response=response)
    with serving(products, known) as shop:
        shop.put(plan_of(shop, "products"), {"P1": {"name": "Widget"}})
        # Until the new row is seen the answer is the body of an error, which is truthy: hence the comparison.
        assert wait_for(lambda: shop.client.get("/products/P1").json() == {"id": "P1", "name": "Widget"})
        unknown = shop.client.get("/products/P9")
        assert (unknown.status_code, unknown.json()) == (500, {"error": "no such product", "asked": "'P9'"})


def test_e_4_the_selector_of_error_bodies_sees_the_names_of_init(serving: Serving) -> None:
    spec = """
    request: {method: GET, path: "/api/v1/metrics/{dimension}"}
    response:
      contentType: application/json
      bodySelector:
        onSuccess: {python: "def success_body(value): return {'success': True, 'data': value}"}
        onError:
          python: |
            def error_body(error):
                now = datetime.now(timezone.utc).isoformat()
                return {"success": False, "error": error["message"], "timestamp": now}
    processors:
      pipeline: [query]
      init: {python: "from datetime import datetime, timezone\\nKNOWN = {'city': 3}"}
      operations:
      - name: query
        map:
          python: |
            def query(request, dimension):
                if dimension not in KNOWN:
                    raise ValueError(f"Unknown dimension: {dimension}")
                return KNOWN[dimension]
    """
    with serving(manifest("KasprWebView", "analytics-api", spec)) as shop:
        assert shop.client.get("/api/v1/metrics/city").json() == {"success": True, "data": 3}
        bad = shop.client.get("/api/v1/metrics/bad")
        assert bad.status_code == 500
        assert bad.json()["success"] is False
        assert bad.json()["error"] == "Unknown dimension: bad"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT.*\+00:00", bad.json()["timestamp"])


def test_s1_8_a_view_reads_a_count_with_its_default(tmp_path: Path) -> None:
    counters = Shop(tmp_path, "counter_app")
    apply_manifests(Warehouse(str(tmp_path)), load_path(ROOT / "bundles" / "event-counting"))
    with served(counters) as running:
        running.put(plan_of(running, "event-counters"), {"a": 2, "unknown": 1})
        wait_for(lambda: running.client.get("/count/a").json()["count"])
        counts = [running.client.get(f"/count/{category}").json() for category in ("a", "unknown", "zzz")]
        assert counts[0] == {"category": "a", "count": 2}
        assert [count["count"] for count in counts] == [2, 1, 0]


def test_a_changed_row_is_read_within_a_second(serving: Serving) -> None:
    with serving(USERS, LOOKUP) as shop:

        def reads(expected: str) -> bool:
            return shop.client.get("/user/u1").text == expected

        assert reads("")
        for number in range(3):
            shop.put(plan_of(shop, "users"), {"u1": number})
            wait_for(partial(reads, str(number)), seconds=1.0)


def test_a_running_server_follows_applied_changed_and_deleted_manifests(serving: Serving) -> None:
    one, other = (view("v", "GET", "/v", f"def f(request): return '{text}'") for text in ("one", "other"))
    with serving(USERS, one) as shop:
        assert shop.client.get("/v").text == "one"
        shop.apply(other, LOOKUP)
        wait_for(lambda: shop.client.get("/v").text == "other", seconds=3)
        assert shop.client.get("/user/u1").status_code == 200
        registry_of(Warehouse(str(shop.folder)), "shop").change(lambda before: without(before, "KasprTable", "users"))
        wait_for(lambda: shop.client.get("/user/u1").status_code == 503, seconds=3)
        registry_of(Warehouse(str(shop.folder)), "shop").change(lambda before: without(before, "KasprWebView", "v"))
        wait_for(lambda: shop.client.get("/v").status_code == 404, seconds=3)


def test_an_answer_does_not_wait_until_its_headers_are_acknowledged() -> None:
    with listener_at(Address(port=0)) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_many_clients_send_at_once_and_nothing_is_lost(serving: Serving) -> None:
    spec = """
    request: {method: POST, path: "/in/{number}"}
    processors:
      pipeline: [publish]
      operations:
      - name: publish
        topicSend:
          name: inbox
          keySelector: {python: "def key(request, number): return number"}
          valueSelector: {python: "async def value(request): return await request.json()"}
    """
    with serving(manifest("KasprWebView", "in", spec)) as shop:
        answers: list[int] = []
        work = [
            threading.Thread(target=lambda n=n: answers.append(shop.client.post(f"/in/{n}", json=n).status_code))
            for n in range(60)
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        assert answers == [200] * 60
        assert sorted(int(value) for _, value in sends(shop, "inbox")) == list(range(60))
        head = shop.delta.head("topic__inbox")
        assert head is not None
        assert head.version < 60  # requests that came during a commit share the next one


def test_metrics_and_status_have_the_names_of_kaspr_and_open_api_describes_each_view(serving: Serving) -> None:
    dated = view("dated", "POST", "/on/{day:[0-9]{4}}", "def f(request): return 1", response="statusCode: 201")
    with serving(USERS, LOOKUP, dated) as shop:
        shop.put(plan_of(shop, "users"), {"u1": 1, "u2": 2})
        shop.client.get("/user/u1")
        shop.client.get("/nothing")
        scraped = shop.client.get("/metrics")
        assert scraped.headers["content-type"].startswith("text/plain; version=0.0.4")
        lines = {re.sub(r'worker_name="[^"]*"', "W", line) for line in scraped.text.splitlines()}
        common = 'app_name="shop-app"'
        assert {
            f'kaspr_table_operations_total{{{common},operation="keys_retrieved",table="table.users",W}} 1.0',
            f'kaspr_table_key_count{{{common},table="table.users",W}} 2.0',
            f'kaspr_http_status_codes_total{{{common},status_code="404",W}} 1.0',
            f"kaspr_health{{{common},W}} 0.0",
        } <= lines, scraped.text
        status = shop.client.get("/status/").json()
        assert (status["leader"], status["rebalancing"], status["app"]) == (True, False, "shop")
        assert status["table_metadata"] == {"users": {"changelog": "shop-app-users-changelog"}}
        assert (status["resources"], status["metrics"]) == ([], [])
        assert shop.client.post("/status/").status_code == 405
        document = shop.client.get("/openapi.json").json()
        get, post = document["paths"]["/user/{id}"]["get"], document["paths"]["/on/{day}"]["post"]
        assert (get["operationId"], get["x-kaspr-tables"]) == ("lookup", ["users"])
        assert [day["schema"]["pattern"] for day in post["parameters"]] == ["^(?:[0-9]{4})$"]
        assert "201" in post["responses"]
        assert "security" not in document


def test_a_server_refuses_unknown_schemas_and_catalogs_without_sql_warehouse(shop: Shop) -> None:
    with pytest.raises(NotFoundError):
        web_application(Warehouse(str(shop.folder)).namespace("other"))
    with pytest.raises(UsageError, match="name a SQL warehouse"):
        web_application(Warehouse("unity://main.shop/checkpoints").namespace("shop"))
