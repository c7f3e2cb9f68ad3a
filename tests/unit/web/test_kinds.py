"""The pages of tasks, web views, agents and joins, charts, and pages of errors."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from kaspr_delta.plan.definition.resources import SchedulePlan
from kaspr_delta.plan.names import task_table
from kaspr_delta.storage.layout import CHANNEL, DEAD_LETTERS, EFFECTS, EVENTS, PROGRESS, RESULT, SUBSCRIPTIONS
from kaspr_delta.storage.native.system_tables import NativeSystemTables
from kaspr_delta.web.parts.chart import Point, chart
from kaspr_delta.web.parts.schedule import in_words, next_runs
from kaspr_delta.web.traffic import Traffic
from tests.folders import append_rows
from tests.unit.web.conftest import Serving, Shop, manifest, plan_of, served, view, wait_for
from tests.unit.web.test_pages import Tags, failed, orders

NOW = datetime.now(timezone.utc)
EVIL = "<script>alert('x')</script>"
USERS = manifest("KasprTable", "users", "name: users")
LOOKUP = view("lookup", "GET", "/user/{id}", "def f(request, users): return users.get(request['id'])", tables="users")
REPORT = """
schedule: {interval: 30s}
processors:
  pipeline: [send]
  operations:
  - name: send
    topicSend: {name: reports, keySelector: {python: "def key(value): return 'k'"}}
"""

__all__ = ["failed", "orders"]  # fixtures


def test_a_task_shows_its_schedule_its_past_and_next_runs_and_its_output(serving: Serving) -> None:
    with serving(manifest("KasprTask", "report", REPORT)) as shop:
        assert "It has not run yet" in shop.client.get("/ui/task/report").text
        runs = [("task/report", "c", n, 0, 1, 0, 0, 0, 0.5, "{}", NOW - timedelta(seconds=40 - 30 * n)) for n in (0, 1)]
        NativeSystemTables(shop.delta).append(PROGRESS, runs)
        sent = {"kind": "send", "target": "reports", "key": b'"k"', "value": json.dumps({"x": EVIL}).encode()}
        append_rows(shop.delta, task_table("report"), EFFECTS, {**sent, "seq": 0, "checkpoint": "c", "batch": 1})
        page = shop.client.get("/ui/task/report").text
        assert "Runs every 30s. It last ran" in page
        assert "Last 2 runs" in page
        assert "A continuous run would start it next at" in page
        assert "/ui/topic/reports" in Tags(page).links
        assert re.search(r"<th[^>]*><a[^>]*>value.x", page)
        assert EVIL not in page


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (None, "once, at the start of a run"),
        (SchedulePlan(None, "@daily", "UTC"), "daily (UTC)"),
        (SchedulePlan(None, "0 * * * *", "UTC"), "every hour (UTC)"),
        (SchedulePlan(None, "5 4 * * *", "UTC"), "at 04:05, every day (UTC)"),
        (SchedulePlan(None, "5 4 * * 7", "UTC"), "at 04:05, each Sunday (UTC)"),
        (SchedulePlan(None, "5 4 1 * *", "UTC"), "by cron 5 4 1 * * (UTC)"),
        (SchedulePlan(None, "5 4 * * * 30", "UTC"), "by cron 5 4 * * * 30 (UTC)"),
    ],
)
def test_schedules_are_words(schedule: SchedulePlan | None, words: str) -> None:
    assert in_words(schedule) == words


def test_the_next_runs_of_an_interval_count_from_the_last_one_and_are_not_past() -> None:
    every = SchedulePlan(60_000, None, "UTC")
    last = datetime.now(timezone.utc) - timedelta(days=1, seconds=10)
    first, second, *_ = next_runs(every, last)
    assert timedelta(0) < first - datetime.now(timezone.utc) <= timedelta(minutes=1)
    assert second - first == timedelta(minutes=1)
    assert (first - last) % timedelta(minutes=1) == timedelta(0)
    assert next_runs(every, None) == next_runs(None, last) == []
    assert len(next_runs(SchedulePlan(None, "*/5 * * * *", "Europe/Berlin"), None)) == 5


def test_a_view_can_be_tried_and_shows_its_answers(serving: Serving) -> None:
    with serving(USERS, LOOKUP) as shop:
        shop.put(plan_of(shop, "users"), {"a/b": {"n": 1}})
        page = shop.client.get("/ui/webview/lookup").text
        assert "None yet." in page
        assert 'name="id"' in page
        assert "&#34;$SERVER/user/ID&#34;" in page
        sent = shop.client.get("/ui/webview/lookup/try?id=a/b&query=x%3D1")
        assert (sent.status_code, sent.headers["location"]) == (303, "/user/a%2Fb?x=1")
        assert shop.client.get("/ui/webview/nothing/try").status_code == 404
        assert shop.client.get("/ui/webview/lookup/try?id=").status_code == 400
        for _ in range(3):
            shop.client.get("/user/u1")
        page = shop.client.get("/ui/webview/lookup").text
        assert "<dt>Requests<dd>3" in page
        assert "200: 3" in page
        assert "200 in " in page


def test_a_tried_request_stays_on_this_server(serving: Serving) -> None:
    anywhere = view("anywhere", "GET", "/{first}/{second}", "def f(request, first, second): return first")
    with serving(anywhere) as shop:
        for query, status in (("first=&second=evil.example", 400), ("first=/&second=evil.example", 303)):
            answer = shop.client.get(f"/ui/webview/anywhere/try?{query}")
            assert answer.status_code == status
            assert not answer.headers.get("location", "").startswith("//")


def test_with_a_token_a_view_is_tried_by_a_command_only(serving: Serving) -> None:
    secret = "-".join("abc")
    with serving(USERS, LOOKUP, token=secret) as shop:
        page = shop.client.get("/ui/webview/lookup", headers={"authorization": f"Bearer {secret}"}).text
        assert "Send the request" not in page
        assert "Bearer $KASPR_DELTA_TOKEN" in page
        assert secret not in page


def test_latency_is_that_of_the_newest_answers() -> None:
    traffic = Traffic()
    for number in range(300):
        traffic.answered("v", 500 if number == 0 else 200, number / 1_000)
    of = traffic.of("v")
    assert (of.requests, of.statuses, len(of.recent)) == (300, {200: 299, 500: 1}, 200)
    assert (of.within(0.5), of.within(1.0)) == (200.0, 299.0)
    assert traffic.of("other").within(0.5) == 0


def test_a_page_shows_the_lag_that_the_server_has_seen(failed: Shop) -> None:
    with served(failed) as shop:
        shown = wait_for(
            lambda: re.search(r"<title>[^<]*: lag (\d+)<", shop.client.get("/ui/agent/ingest-orders").text)
        )
        assert shown[1] == "1"
        assert "as this server has seen it" not in shop.client.get("/ui/table/orders").text


def test_a_joins_page_follows_a_key_to_its_result(orders: Shop) -> None:
    with_product = {"O1": {"product_id": "P1", "note": EVIL}}
    orders.delta.delete("orders", "true")
    orders.put(plan_of(orders, "orders"), with_product)
    orders.put(plan_of(orders, "products"), {"P1": {"name": "Lamp"}, "P2": {"name": "Kettle"}})
    left, right = json.dumps(with_product["O1"]), '{"name":"Lamp"}'
    append_rows(orders.delta, "subscriptions__orders_products_join", SUBSCRIPTIONS, {"key": '"O1"', "fk": '"P1"'})
    emitted = {"key": '"O1"', "kind": "value", "left": left, "right": right, "timestamp": NOW, "batch": 7}
    append_rows(
        orders.delta, "channel__orders_products_joined", CHANNEL, {**emitted, "seq": 1}, {**emitted, "kind": "state"}
    )
    append_rows(
        orders.delta, "orders_products_join", RESULT, {"key": '"O1"', "left": left, "right": right, "timestamp": NOW}
    )
    with served(orders) as shop:
        for key in ("O1", "%22O1%22"):
            page = shop.client.get(f"/ui/join/orders-products-join?key={key}").text
            stations = dict(re.findall(r"<h3>(\w+(?: row)?).*?</h3>(.*?)</li>", page, re.DOTALL))
            assert list(stations) == ["Left row", "Subscription", "Right row", "Responses", "Result"]
            assert all("<table" in station for station in stations.values())
            assert ">P1<" in stations["Subscription"].replace("\n", "")
            assert "Lamp" in stations["Right row"]
            assert "Kettle" not in stations["Right row"]
            assert stations["Responses"].count("<tr>") == 2
            assert "The result is that of the rows as they are now." in page
            assert EVIL not in page
        gone = shop.client.get("/ui/join/orders-products-join?key=O9").text
        assert gone.count("<p>None.</p>") == 5
        assert "Left row" not in shop.client.get("/ui/join/orders-products-join").text


def test_the_traceback_of_a_failed_run_is_on_the_page_of_its_resource(orders: Shop) -> None:
    account = f'ValueError: {EVIL}\n  File "orders.py", line 7, in take'
    at = datetime.now(timezone.utc) + timedelta(seconds=1)
    event = (at, "Warning", "Failed", "KasprAgent", "ingest-orders", account)
    NativeSystemTables(orders.delta).append(EVENTS, [event])
    with served(orders) as shop:
        for path in ("agent/ingest-orders", "activity"):
            page = shop.client.get(f"/ui/{path}").text
            shown = re.search(r"<summary>All of it</summary><pre[^>]*>(.*?)</pre>", page, re.DOTALL)
            assert shown is not None
            assert "line 7, in take" in shown[1]
            assert EVIL not in page


def test_a_browser_gets_pages_for_errors_and_programs_get_json(serving: Serving) -> None:
    secret = "-".join("abc")
    browser = {"accept": "text/html,*/*;q=0.8"}
    with serving(USERS, LOOKUP, token=secret) as shop:
        bearer = {"authorization": f"Bearer {secret}"}
        for method, path, status in (("GET", "/nothing", 404), ("POST", "/user/1", 405)):
            page = shop.client.request(method, path, headers={**browser, **bearer})
            assert (page.status_code, page.headers["content-type"]) == (status, "text/html; charset=utf-8")
            assert '<nav aria-label="Pages">' in page.text
            plain = shop.client.request(method, path, headers=bearer)
            assert json.loads(plain.text)["status"] == status
        for path in ("/ui/", "/user/1"):
            refused = shop.client.get(path, headers=browser)
            assert refused.status_code == 401
            assert "shop" not in refused.text
            assert "www-authenticate" in refused.headers
        answer = shop.client.get("/user/1", headers={**browser, **bearer})
        assert answer.headers["content-type"].startswith("text/plain")  # a view's answer stays as it is


def test_every_page_has_the_headers_that_keep_other_sites_and_scripts_out(failed: Shop) -> None:
    with served(failed) as shop:
        for path in ("", "topic/raw-orders", "table/orders", "search", "activity", "dead-letters", "nothing"):
            headers = shop.client.get(f"/ui/{path}").headers
            assert "default-src 'none'" in headers["content-security-policy"]
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"


def test_names_and_rows_cannot_bring_scripts_into_pages(serving: Serving) -> None:
    described = manifest("KasprTable", "t", f'name: t\ndescription: "{EVIL}"')
    letter: Any = ("table/t", EVIL, EVIL, EVIL, EVIL, EVIL, NOW, 0, NOW)
    with serving(described) as shop:
        shop.put(plan_of(shop, "t"), {EVIL: {EVIL: EVIL, "x": {EVIL: [EVIL]}}})
        NativeSystemTables(shop.delta).append(DEAD_LETTERS, [letter])
        for path in (
            "",
            "table/t",
            "table/t?sort=" + EVIL,
            "table/t?find=" + EVIL,
            "dead-letters",
            "table/t?key=" + EVIL,
        ):
            answer = shop.client.get(f"/ui/{path}")
            assert answer.status_code == 200
            assert EVIL not in answer.text, path


def test_an_axis_has_round_numbers_and_the_time_of_the_points() -> None:
    start = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
    drawn = chart("rows", [Point(start + timedelta(hours=n), value, "") for n, value in enumerate((0, 370, 12))])
    assert [text for _, text in drawn.rows] == ["0", "100", "200", "300", "400"]
    assert [text for _, text in drawn.times] == ["12:00", "12:40", "13:20", "14:00"]
    assert drawn.marks[0].x < drawn.marks[1].x < drawn.marks[2].x
    assert drawn.marks[1].y == min(mark.y for mark in drawn.marks)
    one = chart("seconds", [Point(start, 0.0, "")])
    assert [text for _, text in one.times] == ["12:00:00"]
