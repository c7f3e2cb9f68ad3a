"""A picture as HTML for a notebook, light or dark: text has the notebook's colour, boxes the colour of their kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from kaspr_delta.plan.drawing.picture import HEIGHT, WIDTH, Box, Line, Picture

# Neither so light nor so dark that they vanish on white or on black.
_COLOURS = {
    "topic": "#b7791f",
    "table": "#3b82c4",
    "join": "#8b66d0",
    "agent": "#2f9367",
    "task": "#2f9367",
    "webview": "#c2588f",
}
_OTHER = "#808080"
# Letters of a name that fit a box.
_LONGEST = 23


def html_of(picture: Picture, title: str, waiting: Mapping[str, str]) -> str:
    """The picture as SVG below its title. Boxes of those that wait have broken edges; below are the reasons."""
    waits = "".join(f"<li><code>{escape(label)}</code>: {escape(why)}</li>" for label, why in waiting.items())
    below = f"<p>These wait:</p><ul>{waits}</ul>" if waits else ""
    drawn = _svg(picture, title, waiting) if picture.boxes else "<p>It has no resources.</p>"
    return f'<div><p><strong>{escape(title)}</strong></p><div style="overflow-x: auto">{drawn}</div>{below}</div>'


def _svg(picture: Picture, title: str, waiting: Mapping[str, str]) -> str:
    size = f'width="{picture.width}" viewBox="0 0 {picture.width} {picture.height}"'
    style = "height: auto; max-width: none; font: 14px system-ui, sans-serif"
    parts = (*_lines(picture), *(_box(box, waits=box.label in waiting) for box in picture.boxes))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} style="{style}" role="img" aria-label="{escape(title)}">'
    return f"{head}{''.join(parts)}</svg>"


def _lines(picture: Picture) -> Iterator[str]:
    at = {box.label: box for box in picture.boxes}
    for line in picture.lines:
        target = at[line.edge.target]
        yield _line(line, target.x, target.y + HEIGHT // 2)


def _line(line: Line, x: int, y: int) -> str:
    """A curve with its arrow, which points right: the curve ends level."""
    says = f"<title>{escape(line.edge.source)} feeds {escape(line.edge.target)}</title>"
    curve = f'<path d="{line.path}" fill="none" stroke="currentColor" stroke-opacity=".5"/>'
    arrow = f'<path d="M{x - 8},{y - 4} L{x},{y} L{x - 8},{y + 4} z" fill="currentColor" fill-opacity=".6"/>'
    return f"<g>{says}{curve}{arrow}</g>"


def _box(box: Box, *, waits: bool) -> str:
    colour = _COLOURS.get(box.kind, _OTHER)
    broken = ' stroke-dasharray="5 4"' if waits else ""
    place = f'x="{box.x}" y="{box.y}" width="{WIDTH}" height="{HEIGHT}" rx="5"'
    edge = f'fill="{colour}" fill-opacity=".14" stroke="{colour}" stroke-width="1.5"{broken}'
    name = box.name if len(box.name) <= _LONGEST else f"{box.name[: _LONGEST - 1]}…"
    kind = f"{box.kind} · waits" if waits else box.kind
    return (
        f"<g><title>{escape(box.label)}</title><rect {place} {edge}/>"
        f'<text x="{box.x + 12}" y="{box.y + 20}" fill="currentColor">{escape(name)}</text>'
        f'<text x="{box.x + 12}" y="{box.y + 38}" fill="currentColor" fill-opacity=".75" font-size="13">{escape(kind)}'
        "</text></g>"
    )
