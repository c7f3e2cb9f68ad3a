"""Pages for people, as a browser gets them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kaspr_delta.plan.builder import build_plans
from kaspr_delta.runtime.applying import apply_manifests
from kaspr_delta.spec.loader import load_path
from kaspr_delta.storage.layout import DEAD_LETTERS, PROGRESS
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.system_tables import LocalSystemTables
from kaspr_delta.web.picture import HEIGHT, WIDTH, picture
from tests.unit.web.conftest import ROOT, Serving, Shop, manifest, plan_of, served, view

NOW = datetime.now(timezone.utc)
EVIL = "<script>alert('x')</script>"


class Tags(HTMLParser):
    """What is open at the end, and where links lead."""

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
    system = LocalSystemTables(shop.delta)
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


def test_a_resource_shows_its_state_batches_rows_and_spec(orders: Shop) -> None:
    with served(orders) as shop:
        agent = shop.client.get("/ui/agent/ingest-orders").text
        assert "Last 2 batches" in agent
        assert "7, 4" in agent  # rows in and out
        assert re.search(r'class="bar failed"', agent)
        table = shop.client.get("/ui/table/orders").text
        assert "&#34;O1&#34;" in table
        assert "alert(" in table
        join = shop.client.get("/ui/join/orders-products-join").text
        assert "TableFound" in join
        assert "leftTable: orders" in join
        assert shop.client.get("/ui/table/nothing").status_code == 404
        assert shop.client.get("/ui/a/b/c").json()["detail"] == "there is no such page"


def test_dead_letters_tell_why(orders: Shop) -> None:
    with served(orders) as shop:
        text = shop.client.get("/ui/dead-letters").text
        assert "event failed" in text
        assert "/ui/agent/ingest-orders" in Tags(text).links


def test_pages_are_read_only_need_the_token_and_know_their_prefix(serving: Serving) -> None:
    secret = "-".join("abc")
    with serving(manifest("KasprTable", "t", "name: t"), token=secret, root_path="/apps/x") as shop:
        assert shop.client.get("/ui/").status_code == 401
        bearer = {"authorization": f"Bearer {secret}"}
        assert "/apps/x/ui/table/t" in Tags(shop.client.get("/ui/", headers=bearer).text).links
        assert shop.client.post("/ui/", headers=bearer).status_code == 405
        assert shop.client.get("/", headers=bearer).headers["location"] == "/apps/x/ui/"


def test_a_view_may_answer_at_the_root(serving: Serving) -> None:
    with serving(view("v", "GET", "/", "def f(request): return 'mine'")) as shop:
        assert shop.client.get("/").text == "mine"


@pytest.mark.parametrize("bundle", sorted(folder.name for folder in (ROOT / "bundles").iterdir() if folder.is_dir()))
def test_no_box_lies_on_another_and_what_feeds_stands_left(bundle: str) -> None:
    (plan,), _ = build_plans(load_path(ROOT / "bundles" / bundle))
    drawn = picture(plan)
    places = {(box.x, box.y) for box in drawn.boxes}
    assert len(places) == len(drawn.boxes)
    by_label = {box.label: box for box in drawn.boxes}
    assert all(by_label[line.source].x < by_label[line.target].x for line in drawn.lines)
    assert max(box.x for box in drawn.boxes) + WIDTH < drawn.width
    assert max(box.y for box in drawn.boxes) + HEIGHT < drawn.height
