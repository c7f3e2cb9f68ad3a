"""The HTML pages of the server."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from urllib.parse import urlencode

import deltalake
import pyarrow as pa
import pytest

from kaspr_delta.engine.batch.counters import counter
from kaspr_delta.plan.drawing.picture import HEIGHT, TEXT_HEIGHT, TEXT_WIDTH, WIDTH
from kaspr_delta.runtime.applying import apply_manifests
from kaspr_delta.spec.loader import load_path
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.layout import DEAD_LETTERS, PROGRESS, TOPIC, table_layout
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.native.system_tables import NativeSystemTables
from tests.folders import append_rows, folder_of
from tests.manifests import plan_of_bundle
from tests.unit.web.conftest import ROOT, Serving, Shop, manifest, plan_of, served, view

NOW = datetime.now(timezone.utc)
EVIL = "<script>alert('x')</script>"


class Tags(HTMLParser):
    """The tags of a page, and the targets of its links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links.extend(value or "" for name, value in attributes if name == "href" and tag == "a")


@pytest.fixture
def orders(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path, "order_system")
    apply_manifests(Warehouse(str(tmp_path)), load_path(ROOT / "bundles" / "order-system"))
    shop.put(plan_of(shop, "orders"), {"O1": {"note": EVIL}, "O2": {}})
    system = NativeSystemTables(shop.delta)
    batches = [
        ("agent/ingest-orders", "c", n, 3 + n, 2, n, 0, 0, 0.5 + n, "{}", NOW - timedelta(hours=3 - n)) for n in (0, 1)
    ]
    system.append(PROGRESS, batches)
    letter = ("agent/ingest-orders", "raw-orders", "k", EVIL, "event failed", f"ValueError: {EVIL}", NOW, 0, NOW)
    system.append(DEAD_LETTERS, [letter])
    return shop


def test_the_overview_shows_every_resource_and_leads_to_its_page(orders: Shop) -> None:
    with served(orders) as shop:
        home = shop.client.get("/", follow_redirects=True)
        assert home.headers["content-type"] == "text/html; charset=utf-8"
        tags = Tags(home.text)
        assert "script" not in tags.tags
        for label in ("table/orders", "join/orders-products-join", "agent/process-enriched-orders"):
            assert f"/ui/{label}" in tags.links
        assert "agent/ingest-orders feeds table/orders" in home.text
        for link in {link for link in tags.links if link.startswith("/ui")}:
            answer = shop.client.get(link)
            assert answer.status_code == 200, link
            assert EVIL not in answer.text
            assert set(Tags(answer.text).tags) >= {"main", "nav", "h1"}


def test_a_resource_shows_its_state_batches_rows_spec_and_dead_letters(orders: Shop) -> None:
    with served(orders) as shop:
        agent = shop.client.get("/ui/agent/ingest-orders").text
        assert "Last 2 batches" in agent
        assert "7, 4" in agent  # rows in and out
        assert re.search(r'class="dot failed"', agent)
        table = shop.client.get("/ui/table/orders").text
        assert re.search(r">\s*O1<", table)
        assert "alert(" in table
        join = shop.client.get("/ui/join/orders-products-join").text
        assert "TableFound" in join
        assert "leftTable: orders" in join
        assert shop.client.get("/ui/table/nothing").status_code == 404
        letters = shop.client.get("/ui/dead-letters").text
        assert "event failed" in letters
        assert "/ui/agent/ingest-orders" in Tags(letters).links


def retry_form(shop: Shop, **headers: str) -> dict[str, str]:
    """The hidden fields of the form that confirms the retry of the only letter."""
    (link,) = {
        link for link in Tags(shop.client.get("/ui/dead-letters", headers=headers).text).links if "letter=" in link
    }
    page = shop.client.get(link, headers=headers).text
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page))


def on_topic(shop: Shop) -> list[bytes]:
    return [row["value"] for row in shop.delta.rows("topic__raw_orders", "SELECT value FROM t ORDER BY seq")]


@pytest.fixture
def failed(orders: Shop) -> Shop:
    """The application ``orders``, with the letter's record on its topic."""
    record = {"key": b"k", "value": EVIL.encode(), "timestamp": NOW, "partition": 0, "seq": 0}
    append_rows(orders.delta, "topic__raw_orders", TOPIC, record)
    return orders


def test_a_dead_letter_is_retried_only_by_the_form_of_its_page(failed: Shop) -> None:
    with served(failed) as shop:
        form = retry_form(shop)
        for wrong in ({}, {**form, "seal": ""}, {**form, "seal": "é"}, {**form, "letter": ""}):
            refused = shop.client.post("/ui/dead-letters/retry", data=wrong)
            assert (refused.status_code, on_topic(shop)) == (403, [EVIL.encode()])
            assert "not from a page of this server" in refused.text
        elsewhere = shop.client.post("/ui/dead-letters/retry", data=form, headers={"sec-fetch-site": "cross-site"})
        assert elsewhere.status_code == 403
        assert shop.client.post("/ui/dead-letters/retry", content=b"x" * 20_000).status_code == 413
        large = shop.client.post("/ui/dead-letters/retry", content=b"x" * 20_000)
        assert (large.headers["content-type"], large.headers["connection"]) == ("text/html; charset=utf-8", "close")
        done = shop.client.post("/ui/dead-letters/retry", data=form)
        assert (done.status_code, done.headers["location"]) == (303, "/ui/dead-letters?sent=1&lost=0")
        assert on_topic(shop) == [EVIL.encode()] * 2
        assert "1 record sent once more" in shop.client.get(done.headers["location"]).text
        assert "None: all that came in" in shop.client.get("/ui/dead-letters").text
        assert shop.client.post("/ui/dead-letters/retry", data=form).status_code == 303
        assert on_topic(shop) == [EVIL.encode()] * 2
        assert 'topic="topic.raw-orders"' in shop.client.get("/metrics").text
        agent_page = shop.client.get("/ui/agent/ingest-orders").text
        assert "1 dead letter put on topic `raw-orders` again" in agent_page
        assert shop.client.get("/ui/dead-letters/retry?resource=agent/ingest-orders&letter=x").status_code == 404


def test_requests_for_another_host_or_through_a_proxy_cannot_retry(failed: Shop) -> None:
    with served(failed) as shop:
        for headers in ({"host": "evil.example"}, {"x-forwarded-for": "10.0.0.1"}):
            page = shop.client.get("/ui/dead-letters", headers=headers).text
            assert "Nothing can be changed from here" in page
            assert "Retry…" not in page
            refused = shop.client.post("/ui/dead-letters/retry", data=retry_form(shop), headers=headers)
            assert (refused.status_code, on_topic(shop)) == (403, [EVIL.encode()])


def test_behind_a_proxy_only_the_named_user_may_retry_and_is_in_the_event(failed: Shop) -> None:
    with served(failed, behind_proxy=True) as shop:
        ann, bob = ({"x-forwarded-email": f"{name}@example.org"} for name in ("ann", "bob"))
        assert "does not name the user" in shop.client.get("/ui/dead-letters").text
        form = retry_form(shop, **ann)
        for headers in ({}, bob):
            assert shop.client.post("/ui/dead-letters/retry", data=form, headers=headers).status_code == 403
        assert shop.client.post("/ui/dead-letters/retry", data=form, headers=ann).status_code == 303
        assert "as ann@example.org asked" in shop.client.get("/ui/agent/ingest-orders", headers=ann).text


def test_all_but_healthz_needs_the_token_which_is_a_password_for_pages_only(failed: Shop) -> None:
    secret = "-".join("abc")
    with served(failed, token=secret) as shop:
        asked = shop.client.get("/ui/")
        assert asked.headers["www-authenticate"] == 'Bearer, Basic realm="kaspr-delta"'
        assert shop.client.get("/ui/", auth=("anybody", secret)).status_code == 200
        assert shop.client.get("/ui/", auth=("anybody", "wrong")).status_code == 401
        assert shop.client.get("/status/", auth=("anybody", secret)).status_code == 401
        assert shop.client.get("/status/", headers={"authorization": f"Bearer {secret}"}).status_code == 200
        for wrong in ("Basic ???", "Bearer other"):
            assert shop.client.get("/ui/", headers={"authorization": wrong}).status_code == 401
        for path, status in {"/healthz": 200, "/metrics": 401, "/status/": 401, "/view": 401}.items():
            assert shop.client.get(path).status_code == status, path
        assert shop.client.post("/ui/dead-letters/retry", data={}).status_code == 401


def test_the_page_of_a_table_shows_its_last_change_and_older_versions(orders: Shop) -> None:
    rows = orders.delta.rows("orders")
    orders.delta.delete("orders", "key = '\"O2\"'")
    orders.delta.append("orders", pa.Table.from_pylist([{**rows[0], "key": '"O3"'}], rows_schema(orders)))
    with served(orders) as shop:
        page = shop.client.get("/ui/table/orders").text
        assert re.search(r'<td class="line">after<td class="line">new<td class="text">O3<', page)
        assert "All rows at version" not in page
        then = shop.client.get("/ui/table/orders?version=1").text
        since = then[then.index("What has changed since") : then.index("All rows at version 1")]
        assert re.search(r"then<td[^>]*>new<td[^>]*>was not there", since)
        assert re.search(r"now<td[^>]*><td[^>]*>is not there", since)
        assert ">O1<" not in since
        assert ">O1<" in then[then.index("All rows at version 1") :]
        one = shop.client.get("/ui/table/orders?version=1&key=O2").text
        assert "1 row; 1 to 1" in one
        assert ">O3<" not in one[one.index("What has changed since") : one.index("Spec")]
        for odd in ("-1", "99999999999999999999", "x", "0", "7"):
            assert shop.client.get(f"/ui/table/orders?version={odd}").status_code == 200, odd
        assert "No rows with this key" in shop.client.get("/ui/table/orders?key=%27%22%5C").text


AUDIT = """
apiVersion: kaspr.io/v1alpha1
kind: KasprAgent
metadata: {name: audit, labels: {kaspr.io/app: order-system}}
spec: {input: {topic: {name: raw-orders}}}
"""


@pytest.mark.parametrize(("button", "marked"), [({"readers": "failed"}, True), ({"readers": "all"}, False), ({}, True)])
def test_the_retry_page_names_other_readers_and_offers_a_retry_without_them(
    failed: Shop, tmp_path: Path, button: dict[str, str], *, marked: bool
) -> None:
    (tmp_path / "audit.yaml").write_text(AUDIT)
    apply_manifests(Warehouse(str(tmp_path)), load_path(tmp_path / "audit.yaml"))
    with served(failed) as shop:
        form = retry_form(shop)
        query = urlencode({name: form[name] for name in ("resource", "letter")})
        page = shop.client.get(f"/ui/dead-letters/retry?{query}").text
        assert "Topic raw-orders is also read by agent/audit, which would get 1 record of agent/ingest-orders" in page
        assert re.findall(r'name="readers" value="(\w+)">([^<]*)<', page) == [
            ("failed", "Retry for agent/ingest-orders alone"),
            ("all", "Retry for all readers"),
        ]
        assert shop.client.post("/ui/dead-letters/retry", data={**form, **button}).status_code == 303
        headers = [row["headers"] for row in shop.delta.rows("topic__raw_orders")]
        assert ([{"key": "kaspr-retry-for", "value": b"agent/ingest-orders"}] in headers) == marked
        assert len(headers) == 2


def test_the_status_counts_present_letters_and_the_metric_all_letters(failed: Shop) -> None:
    with served(failed) as shop:
        assert shop.client.post("/ui/dead-letters/retry", data=retry_form(shop)).status_code == 303
        by_resource = {one["resource"]: one for one in shop.client.get("/status/").json()["resources"]}
        agent = by_resource["agent/ingest-orders"]
        assert (agent["deadLetters"], agent["failures"]) == (0, 1)
        counted = r'kaspr_resource_dead_letters_total{[^}]*resource="agent/ingest-orders"[^}]*} 1.0'
        assert re.search(counted, shop.client.get("/metrics").text)
        assert "(1 so far)" in shop.client.get("/ui/agent/ingest-orders").text


def rows_schema(shop: Shop) -> pa.Schema:
    return arrow_schema(table_layout(plan_of(shop, "orders")).columns)


def test_a_version_whose_files_are_gone_gives_a_page_with_the_reason(orders: Shop) -> None:
    location = folder_of(orders.delta.namespace, "orders")
    assert location is not None
    orders.delta.delete("orders", "key = '\"O2\"'")
    old = {Path(file).name for file in deltalake.DeltaTable(str(location), version=1).file_uris()}
    for name in old:
        (location / name).unlink()
    with served(orders) as shop:
        assert "VACUUM has removed them" in shop.client.get("/ui/table/orders?version=1").text
        assert shop.client.get("/ui/table/orders").status_code == 200


def test_lines_of_the_topology_show_rows_lag_and_dead_letters(failed: Shop) -> None:
    records = [{"key": b"k", "value": b"v", "partition": 0, "seq": number} for number in range(2)]
    append_rows(failed.delta, "topic__raw_orders", TOPIC, *records)
    with served(failed) as shop:
        page = shop.client.get("/ui/").text
        assert (
            "topic/raw-orders feeds agent/ingest-orders: 0 rows or records so far, 3 still to be read, 1 dead letters"
            in page
        )
        assert re.search(r'class="feeds failed"', page)
        assert ">lag 3</text>" in page
        assert ">1 failed</text>" in page
        assert re.search(
            r"topic/raw-orders</a>\s*<td><a[^>]*>agent/ingest-orders</a>\s*<td[^>]*>0 so far<td[^>]*>3<td[^>]*>1</tr>",
            page,
        )


def test_lines_of_agents_count_records_so_far_and_lines_to_joins_present_rows(orders: Shop) -> None:
    counts = {
        counter("messages_received_per_topic", "raw-orders"): 4,
        counter("table_operations", "orders", "keys_updated"): 3,
    }
    row = ("agent/ingest-orders", "c", 2, 4, 3, 0, 0, 0, 0.5, json.dumps(counts), NOW)
    NativeSystemTables(orders.delta).append(PROGRESS, [row])
    with served(orders) as shop:

        def along(line: str) -> str:
            source, target = line.split(" -> ")
            (found,) = re.findall(f"{source} feeds {target}: ([^,<]*)", shop.client.get("/ui/").text)
            return str(found)

        assert along("topic/raw-orders -> agent/ingest-orders") == "4 rows or records so far"
        assert along("agent/ingest-orders -> table/orders") == "3 rows or records so far"
        assert along("table/orders -> join/orders-products-join") == "2 rows or records now"
        # A changed row still counts as one row, a deleted row as none.
        deltalake.DeltaTable(str(folder_of(shop.delta.namespace, "orders"))).update(
            updates={"value": "'{}'"}, predicate="key = '\"O1\"'"
        )
        shop.delta.delete("orders", "key = '\"O2\"'")
        assert along("table/orders -> join/orders-products-join") == "1 rows or records now"


def test_pages_need_the_token_refuse_post_and_link_below_their_prefix(serving: Serving) -> None:
    secret = "-".join("abc")
    v = view("v", "GET", "/v/{x}", "def f(request, x): return x")
    with serving(manifest("KasprTable", "t", "name: t"), v, token=secret, root_path="/apps/x") as shop:
        assert shop.client.get("/ui/").status_code == 401
        bearer = {"authorization": f"Bearer {secret}"}
        assert "/apps/x/ui/table/t" in Tags(shop.client.get("/ui/", headers=bearer).text).links
        assert shop.client.post("/ui/", headers=bearer).status_code == 405
        assert shop.client.get("/", headers=bearer).headers["location"] == "/apps/x/ui/"
        assert shop.client.get("/v/1", headers=bearer).text == "1"
        assert shop.client.get("/status/", headers=bearer).json()["app"] == "shop"


def test_typed_tables_and_tables_of_others_have_pages(serving: Serving) -> None:
    """Rows of a table in a catalog are not counted: they are not on this machine."""
    elsewhere = manifest("KasprTable", "elsewhere", "source: {table: main.sales.products, key: [id]}")
    typed = manifest("KasprTable", "typed", "schema: 'id STRING, zip INT'\nkey: id")
    join = manifest("KasprJoin", "both", "leftTable: typed\nrightTable: elsewhere\ncolumn: zip\ntype: left")
    with serving(elsewhere, typed, join) as shop:
        plan = plan_of(shop, "typed")
        append_rows(shop.delta, "typed", table_layout(plan), {"id": "x", "zip": 7})
        for path in ("/ui/", "/ui/table/elsewhere", "/ui/join/both", "/metrics", "/status/"):
            assert shop.client.get(path).status_code == 200, path
        page = shop.client.get("/ui/table/typed?version=0&key=x").text
        assert re.search(r"was not there.*now.*x.*7", page, re.DOTALL)


@pytest.mark.parametrize("bundle", sorted(folder.name for folder in (ROOT / "bundles").iterdir() if folder.is_dir()))
def test_boxes_and_labels_do_not_overlap_and_sources_are_left_of_targets(bundle: str) -> None:
    drawn = plan_of_bundle(bundle).picture()
    places = {(box.x, box.y) for box in drawn.boxes}
    assert len(places) == len(drawn.boxes)
    by_label = {box.label: box for box in drawn.boxes}
    assert all(by_label[line.edge.source].x < by_label[line.edge.target].x for line in drawn.lines)
    for one, other in combinations(drawn.lines, 2):
        assert abs(one.x - other.x) >= TEXT_WIDTH or abs(one.y - other.y) >= TEXT_HEIGHT, (one.edge, other.edge)
    assert max(box.x for box in drawn.boxes) + WIDTH < drawn.width
    assert max(box.y for box in drawn.boxes) + HEIGHT < drawn.height
