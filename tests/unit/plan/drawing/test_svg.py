"""The picture of a plan in a notebook: all boxes and lines, in colours that can be seen on white and on black."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from kaspr_delta.plan.drawing.picture import WIDTH, Edge, picture
from kaspr_delta.plan.drawing.svg import html_of
from kaspr_delta.spec.kinds import short_kind
from kaspr_delta.spec.manifest import KINDS
from tests.colours import contrast
from tests.documented import ROOT
from tests.manifests import plan_of, plan_of_bundle

BUNDLES = sorted(folder.name for folder in (ROOT / "bundles").iterdir() if folder.is_dir())


def elements(html: str, tag: str) -> list[ET.Element]:
    """The elements of a picture's SVG, which has to be XML."""
    svg = re.search(r"<svg.*</svg>", html, re.DOTALL)
    assert svg is not None
    return list(ET.fromstring(svg[0]).iter(f"{{http://www.w3.org/2000/svg}}{tag}"))  # noqa: S314  made here


@pytest.mark.parametrize("bundle", BUNDLES)
def test_a_plan_shows_each_resource_and_each_flow_in_a_notebook(bundle: str) -> None:
    plan = plan_of_bundle(bundle)
    html = plan._repr_html_()
    titles = {title.text for title in elements(html, "title")}
    refs = {str(one.ref) for kind in (plan.topics, plan.tables, plan.joins, plan.agents) for one in kind}
    assert refs
    assert refs <= titles
    assert {f"{edge.source} feeds {edge.target}" for edge in plan.edges} <= titles
    assert len(elements(html, "rect")) == len(plan.picture().boxes)
    assert f"<strong>{plan.application}</strong>" in html


def test_text_has_the_colour_of_the_notebook_and_boxes_are_seen_on_white_and_on_black() -> None:
    labels = [f"{short_kind(kind)}/x" for kind in KINDS if kind != "KasprApp"]
    html = html_of(picture([*labels, "topic/x", "other/x"], []), "shop", {})
    assert {text.get("fill") for text in elements(html, "text")} == {"currentColor"}
    colours = {rect.get("stroke") or "" for rect in elements(html, "rect")}
    assert len(colours) >= 6
    for colour in colours:
        assert contrast(colour, "#ffffff") >= 3, colour
        assert contrast(colour, "#181818") >= 3, colour


def test_a_resource_that_waits_has_a_broken_edge_and_its_reason_below() -> None:
    plan = plan_of("shop", "KasprTable/t: {}\nKasprTable/waits: {from: {join: nowhere}, count: {}}")
    html = plan._repr_html_()
    broken = [rect for rect in elements(html, "rect") if rect.get("stroke-dasharray")]
    assert len(broken) == 1
    assert [text.text for text in elements(html, "text") if "waits" in (text.text or "")] == ["waits", "table · waits"]
    assert "<li><code>table/waits</code>: join &#x27;nowhere&#x27; is not there" in html


def test_an_arrow_ends_at_its_box_and_names_bring_no_tags() -> None:
    evil = "agent/<b>&\"'"
    drawn = picture(["topic/x", evil], [Edge("topic/x", evil)])
    html = html_of(drawn, "<i>", {evil: "<u>"})
    for tag in ("<b>", "<i>", "<u>"):
        assert tag not in html
    target = next(box for box in drawn.boxes if box.label == evil)
    (arrow,) = [path for path in elements(html, "path") if path.get("fill") == "currentColor"]
    assert f"L{target.x},{target.y + 24}" in (arrow.get("d") or "")
    assert target.x > WIDTH


def test_an_application_without_resources_says_so() -> None:
    html = plan_of("shop", "KasprTable/t: {}").emptied._repr_html_()
    assert "<svg" not in html
    assert "It has no resources." in html


def test_a_long_name_is_cut_to_its_box_and_whole_in_the_title() -> None:
    name = "a-very-long-name-of-a-table-that-fits-no-box"
    html = html_of(picture([f"table/{name}"], []), "shop", {})
    assert next(text.text for text in elements(html, "text")) == f"{name[:22]}…"
    assert [title.text for title in elements(html, "title")] == [f"table/{name}"]
