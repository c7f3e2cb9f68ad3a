"""The ways to a page: filters of the topology, links, search and activity."""

from __future__ import annotations

import re

from tests.unit.web.conftest import Shop, served
from tests.unit.web.test_pages import EVIL, Tags, failed, orders

__all__ = ["failed", "orders"]  # fixtures


def test_the_topology_is_filtered_by_name_kind_state_and_neighbourhood(failed: Shop) -> None:
    with served(failed) as shop:

        def shown(query: str) -> set[str]:
            page = shop.client.get(f"/ui/{query}").text
            return set(re.findall(r'<tr><td class="line"><a href="/ui/([^"]+)"', page))

        assert len(shown("")) == 9
        assert shown("?kind=table") == {"table/orders", "table/products"}
        assert shown("?find=products&kind=agent") == {"agent/ingest-products"}
        assert shown("?only=failed") == {"agent/ingest-orders"}
        assert "topic/raw-products" not in shown("?around=table/orders")
        assert "topic/enriched-orders" in shown("?around=table/orders")
        assert shown("?around=nothing") == shown("")
        page = shop.client.get("/ui/").text
        assert re.search(r"1 dead letter in 1</a>", page)
        first = re.search(r'<tr><td class="line"><a href="/ui/([^"]+)"', shop.client.get("/ui/?sort=-letters").text)
        assert first is not None
        assert first[1] == "agent/ingest-orders"
        assert "width: " in shop.client.get("/ui/?zoom=150").text
        assert shop.client.get("/ui/?zoom=%22%3E%3Cscript%3E").text.count("<script") == 0


def test_every_link_of_every_page_leads_to_a_page(failed: Shop) -> None:
    with served(failed) as shop:
        todo, seen = {"/ui/"}, set[str]()
        while todo:
            path = todo.pop()
            seen.add(path)
            answer = shop.client.get(path)
            assert answer.status_code == 200, path
            if answer.headers["content-type"].startswith("text/html"):
                base = path.split("?")[0]
                links = {base + link if link.startswith("?") else link for link in Tags(answer.text).links}
                found = {link.split("#")[0] for link in links if link.startswith("/")}
                # Sorted and live pages lead to one another in many combinations: those of the first pages are enough.
                todo |= {link for link in found if "?" not in link or "?" not in path} - seen
        assert {"/ui/activity", "/ui/app/order-system", "/ui/topic/raw-orders", "/metrics"} <= seen


def test_search_finds_names_lines_of_manifests_and_keys(orders: Shop) -> None:
    with served(orders) as shop:
        page = shop.client.get("/ui/search?find=raw-ord").text
        assert "/ui/topic/raw-orders" in Tags(page).links
        assert "<code>name: raw-orders" in page
        assert "/ui/table/orders?key=O1#rows" in Tags(shop.client.get("/ui/search?find=O1&keys=1").text).links
        assert "No table or result has a row with the key" in shop.client.get("/ui/search?find=zz&keys=1").text
        evil = shop.client.get("/ui/search", params={"find": EVIL}).text
        assert EVIL not in evil
        assert "None has" in evil


def test_activity_shows_the_newest_batches_and_events_of_all_resources(orders: Shop) -> None:
    with served(orders) as shop:
        page = shop.client.get("/ui/activity").text
        assert page.count('href="/ui/agent/ingest-orders"') >= 2
        assert "AppFound" in page
        assert "/ui/dead-letters?resource=agent/ingest-orders" in Tags(page).links
