"""Pages in this machine's Chromium, without a window. Screenshots are kept in pytest's temporary folder."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from kaspr_delta.storage.layout import TOPIC
from tests.colours import contrast, luminance
from tests.folders import append_rows
from tests.unit.web.conftest import Shop, served
from tests.unit.web.test_pages import EVIL, NOW, failed, orders, rows_schema

CHROMIUM = os.environ.get("KASPR_DELTA_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
PAGES = {
    "topology": "/ui/",
    "dead-letters": "/ui/dead-letters",
    "agent": "/ui/agent/ingest-orders",
    "topic": "/ui/topic/raw-orders",
    "join": "/ui/join/orders-products-join",
    "table": "/ui/table/orders",
    "table-then": "/ui/table/orders?version=1",
    "table-found": "/ui/table/orders?find=o1&sort=-value.note",
    "join-key": "/ui/join/orders-products-join?key=O1",
    "app": "/ui/app/order-system",
    "activity": "/ui/activity",
    "search": "/ui/search?find=O1&keys=1",
    "error": "/ui/table/nothing",
}
WIDE, MIDDLE, NARROW = 1280, 768, 360

pytestmark = [
    pytest.mark.browser,
    pytest.mark.process,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: install Debian's chromium, or name KASPR_DELTA_CHROMIUM"),
]

__all__ = ["failed", "orders"]  # fixtures


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Root cannot run Chromium in its sandbox, and only pages of this machine are shown.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def shop(failed: Shop) -> Iterator[Shop]:
    """A served application with a dead letter, lag and a table of three versions."""
    rows = failed.delta.rows("orders")
    failed.delta.append("orders", pa.Table.from_pylist([{**rows[0], "key": '"O3"'}], rows_schema(failed)))
    with served(failed) as running:
        yield running


class Window:
    """A window of the browser. It fails on errors, and on requests to other servers."""

    def __init__(self, browser: Browser, shop: Shop, **options: Any) -> None:
        size: Any = {"width": options.pop("width", WIDE), "height": 800}
        base = str(shop.client.base_url)
        self.context: BrowserContext = browser.new_context(base_url=base, viewport=size, **options)
        self.context.set_default_timeout(10_000)
        self.page: Page = self.context.new_page()
        self.errors: list[str] = []
        self.requested_servers: set[str] = set()
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "request", lambda request: self.requested_servers.add(request.url.split("/ui")[0].removesuffix("/"))
        )
        self.base = base.removesuffix("/")

    def __enter__(self) -> Page:
        return self.page

    def __exit__(self, *error: object) -> None:
        self.context.close()
        if error[0] is None:
            assert self.errors == []
            assert self.requested_servers == {self.base}, "pages work offline"


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (WIDE, "light"),
        (NARROW, "dark"),
        *(
            pytest.param(*case, marks=pytest.mark.further)
            for case in [(WIDE, "dark"), (MIDDLE, "light"), (MIDDLE, "dark"), (NARROW, "light")]
        ),
    ],
)
def test_every_page_fits_its_window_and_requests_no_other_server(
    browser: Browser, shop: Shop, scheme: Any, width: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kept = tmp_path_factory.getbasetemp() / "screenshots"
    kept.mkdir(exist_ok=True)
    window = Window(browser, shop, color_scheme=scheme, width=width)
    with window as page:
        for name, path in PAGES.items():
            page.goto(path)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            picture = kept / f"{name}-{scheme}-{width}.png"
            page.screenshot(path=picture, full_page=True)
            assert picture.stat().st_size > 10_000
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            assert page.evaluate("document.querySelectorAll('main script:not([src])').length") <= 1
            assert EVIL not in page.content()
        assert all("404" in error for error in window.errors)
        window.errors.clear()  # the browser logs the status of the page that is not there


def test_rows_are_filtered_sorted_and_saved_without_scripts(browser: Browser, shop: Shop) -> None:
    with Window(browser, shop, java_script_enabled=False) as page:
        page.goto("/ui/table/orders")
        rows = page.get_by_role("region", name=re.compile("Rows at version"))
        expect(rows.get_by_role("row")).to_have_count(4)
        rows.get_by_role("link", name="key").click()
        rows.get_by_role("link", name="key").click()
        expect(page).to_have_url(re.compile("sort=-key"))
        assert rows.get_by_role("cell").all_inner_texts()[0] == "O3"
        page.get_by_label("Column", exact=True).select_option("key")
        page.get_by_label("contains, or is compared").fill("= O2")
        page.get_by_role("button", name="Filter").click()
        expect(rows.get_by_role("row")).to_have_count(2)
        with page.expect_download() as saved:
            page.get_by_role("link", name="CSV").click()
        assert saved.value.path().read_text().splitlines()[1].startswith("O2,")


def test_a_key_in_the_results_of_a_join_is_followed(browser: Browser, shop: Shop) -> None:
    with Window(browser, shop) as page:
        page.goto("/ui/join/orders-products-join")
        page.get_by_label("Key", exact=True).first.fill("O1")
        page.get_by_role("button", name="Follow").click()
        expect(page.get_by_role("heading", name=re.compile("Left row"))).to_be_visible()
        expect(page.get_by_role("region", name="Left row")).to_contain_text("O1")


@pytest.mark.further
def test_a_live_page_loads_again(browser: Browser, shop: Shop) -> None:
    with Window(browser, shop) as page:
        page.goto("/ui/topic/raw-orders")
        page.get_by_role("link", name="Live").click()
        expect(page.get_by_role("link", name="Stop live")).to_be_visible()
        row = {"key": b"new", "value": b"v", "timestamp": NOW, "partition": 0, "seq": 0}
        append_rows(shop.delta, "topic__raw_orders", TOPIC, row)
        expect(page.get_by_role("region", name="Records")).to_contain_text("new", timeout=15_000)
        page.get_by_role("link", name="Stop live").click()
        expect(page.get_by_role("link", name="Live")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast_to_its_background(browser: Browser, shop: Shop, scheme: Any) -> None:
    """The contrast is at least 4.5 to 1, as WCAG 2 requires of text."""
    with Window(browser, shop, color_scheme=scheme) as page:
        page.goto("/ui/")
        style = "getComputedStyle(document.documentElement).getPropertyValue('--{}')"
        colours = {
            name: str(page.evaluate(style.format(name))).strip()
            for name in ("ink", "dim", "paper", "soft", "mark", "on", "bad", "badsoft", "good", "goodsoft")
        }
        assert (luminance(colours["paper"]) > 0.5) == (scheme == "light")
        behind = {"paper": ("ink", "dim", "mark", "bad", "good"), "soft": ("ink", "dim", "mark", "bad")}
        for ground, inks in {**behind, "mark": ("on",), "badsoft": ("bad",), "goodsoft": ("good",)}.items():
            for ink in inks:
                assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)


def test_the_topology_can_be_used_with_the_keyboard(browser: Browser, shop: Shop) -> None:
    with Window(browser, shop) as page:
        page.goto("/ui/")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile("#main"))
        page.get_by_role("region", name="Topology").focus()  # it can be scrolled
        page.keyboard.press("Tab")
        first = page.locator("svg a").first
        expect(first).to_be_focused()
        label = first.locator("title").inner_html()
        assert page.evaluate("getComputedStyle(document.activeElement.querySelector('rect')).strokeWidth") == "5px"
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text(label)


@pytest.mark.further
def test_every_resource_page_is_one_click_from_the_topology_and_back(browser: Browser, shop: Shop) -> None:
    with Window(browser, shop) as page:
        page.goto("/ui/")
        resources = page.get_by_role("region", name="Resources")
        names = resources.locator("td:first-child a").all_inner_texts()
        assert len(names) == 9
        for name in names:
            resources.get_by_role("link", name=name, exact=True).click()
            expect(page.get_by_role("heading", level=1)).to_have_text(name)
            page.get_by_role("navigation").get_by_role("link", name="Topology").click()
            expect(page.get_by_role("link", name="Topology")).to_have_attribute("aria-current", "page")
        boxes = page.locator("svg a")
        for number in range(boxes.count()):
            boxes.nth(number).click()
            expect(page).to_have_url(re.compile("/ui/(table|agent|join|topic)/"))
            page.go_back()
        page.get_by_text("What feeds what, as a table").click()
        fed = page.get_by_role("region", name="What feeds what")
        expect(fed.get_by_role("link", name="topic/raw-orders", exact=True)).to_be_visible()


def test_the_line_and_box_of_a_resource_with_dead_letters_are_red(browser: Browser, shop: Shop) -> None:
    with Window(browser, shop) as page:
        page.goto("/ui/")
        bad = page.evaluate("getComputedStyle(document.querySelector('.bad')).color")
        for part in ("path.feeds.failed", "rect.box.failed"):
            assert page.evaluate(f"getComputedStyle(document.querySelector('{part}')).stroke") == bad
            assert page.locator(part).count() == 1
        page.locator("td .bad").click()
        expect(page).to_have_url(re.compile(r"dead-letters\?resource=agent"))


def test_a_dead_letter_is_retried_once_and_only_after_confirmation(browser: Browser, shop: Shop) -> None:
    def on_topic() -> int:
        return shop.delta.count("topic__raw_orders")

    window = Window(browser, shop)
    with window as page:
        page.goto("/ui/dead-letters")
        page.get_by_role("link", name="Retry the dead letter").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Retry 1 dead letter of agent/ingest-orders?")
        page.get_by_role("link", name="Leave it").click()
        assert on_topic() == 1
        page.get_by_role("link", name="Retry the dead letter").focus()
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Retry").click()
        expect(page.get_by_role("status")).to_have_text("1 record sent once more.")
        assert on_topic() == 2
        page.reload()  # nothing is sent a second time
        assert window.errors == []
        page.go_back()
        expect(page.get_by_role("alert")).to_contain_text("There is nothing to retry")
        window.errors.clear()  # the browser logs the status 404
        assert on_topic() == 2
        page.goto("/ui/dead-letters")
        expect(page.get_by_text("None: all that came in could be processed.")).to_be_visible()


def test_moving_the_slider_opens_the_page_of_an_older_version(browser: Browser, shop: Shop) -> None:
    with Window(browser, shop) as page:
        page.goto("/ui/table/orders")
        slider = page.get_by_role("slider", name=re.compile("Version"))
        expect(slider).to_have_value("2")
        slider.focus()
        page.keyboard.press("ArrowLeft")
        expect(page).to_have_url(re.compile("version=1"))
        expect(page.get_by_role("heading", name="What has changed since")).to_be_visible()
        expect(page.get_by_role("region", name="What has changed since version 1")).to_contain_text("O3")
        expect(page.get_by_role("region", name="Rows at version 1")).not_to_contain_text("O3")
        page.get_by_label("Key", exact=True).fill("O1")
        page.get_by_role("button", name="Show").click()
        expect(page.get_by_text("Nothing with this key: all rows are as they were.")).to_be_visible()
        page.get_by_role("link", name="Newest, all keys").click()
        expect(slider).to_have_value("2")


def test_without_scripts_a_button_leads_to_the_older_version(browser: Browser, shop: Shop) -> None:
    with Window(browser, shop, java_script_enabled=False) as page:
        page.goto("/ui/table/orders")
        page.get_by_role("slider").focus()
        page.keyboard.press("Home")
        expect(page).not_to_have_url(re.compile("version="))
        page.get_by_role("button", name="Show").click()
        expect(page).to_have_url(re.compile("version=0"))
        expect(page.get_by_text("No rows at version 0.")).to_be_visible()


def test_each_load_of_the_topology_shows_the_present_lag(browser: Browser, shop: Shop) -> None:
    with Window(browser, shop) as page:
        page.goto("/ui/")
        expect(page.locator("svg")).to_contain_text("lag 1")
        row = {"key": b"k", "value": b"v", "timestamp": NOW, "partition": 0, "seq": 0}
        append_rows(shop.delta, "topic__raw_orders", TOPIC, row)
        page.reload()
        expect(page.locator("svg")).to_contain_text("lag 2")
