"""``python -m website.recording``: run the demo, and draw its terminal as the animated picture ``docs/demo.svg``.

The picture is SVG with CSS alone: no script, no font file, no program that records terminals. A reader who asks the
system for less motion sees the last screen.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

from rich.color import ColorType
from rich.color_triplet import ColorTriplet
from rich.style import Style
from rich.terminal_theme import MONOKAI as THEME
from rich.text import Text

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "demo.svg"
_COLUMNS, _LINES = 96, 30
# Sizes in pixels: of a character, of a line, and of the border.
_WIDTH, _HEIGHT, _BORDER = 7.8, 18, 14
# Seconds between two lines, at least and at most, whatever the machine took; to read the lines before an empty one; and
# of the last screen.
_LEAST, _MOST, _READ, _END = 0.05, 2.0, 1.5, 8.0


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a terminal, with its colours as ANSI codes, and the second in which it was written."""

    at: float
    ansi: str


def main() -> None:
    """Record the demo in its usual warehouse, the folder ``.kaspr-delta`` of the repository, and write the picture."""
    PICTURE.write_text(
        picture([Line(0, "\x1b[32m$\x1b[0m kaspr-delta demo"), *recorded(["kaspr-delta", "demo"], ROOT)])
    )


def recorded(command: Sequence[str], folder: Path) -> Iterator[Line]:
    """Run a command in a folder, and return each line as it comes. Raises CalledProcessError if the command fails."""
    began = time.monotonic()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(_COLUMNS), "PATH": path}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as running:  # noqa: S603  our own command
        for text in running.stdout or ():
            yield Line(time.monotonic() - began, text.rstrip("\n"))
    if running.returncode:
        raise subprocess.CalledProcessError(running.returncode, command)


def picture(lines: Sequence[Line]) -> str:
    """The lines as SVG: each appears in its second, and a full screen moves up by a line."""
    moments = paced(lines)
    ends = moments[-1] + _END
    shown = "\n".join(_line(number, line.ansi, moments[number]) for number, line in enumerate(lines))
    width, height = round(_COLUMNS * _WIDTH + 2 * _BORDER), _LINES * _HEIGHT + 2 * _BORDER
    steps = "\n".join(_steps(moments, ends))
    last = _moved(len(lines) - 1)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>kaspr-delta demo: orders are joined with products, and the join follows three changes</title>
<style>
text {{ font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: {_hex(THEME.foreground_color)};
  white-space: pre; visibility: hidden; animation: appear 1ms forwards; }}
@keyframes appear {{ to {{ visibility: visible; }} }}
#screen {{ transform: translateY({last}px); animation: scroll {ends:.2f}s step-end forwards; }}
@keyframes scroll {{
{steps}
}}
@media (prefers-reduced-motion: reduce) {{
  text {{ visibility: visible; animation: none; }}
  #screen {{ animation: none; }}
}}
</style>
<rect width="100%" height="100%" rx="8" fill="{_hex(THEME.background_color)}"/>
<svg x="{_BORDER}" y="{_BORDER}" width="{width - 2 * _BORDER}" height="{height - 2 * _BORDER}">
<g id="screen">
{shown}
</g>
</svg>
</svg>
"""


def paced(lines: Iterable[Line]) -> list[float]:
    """The seconds in which lines appear: after no long pause, and so that a reader can follow."""
    moments, before, now = list[float](), 0.0, 0.0
    for line in lines:
        now += min(max(line.at - before, _LEAST), _MOST) if line.ansi.strip() else _READ
        before = line.at
        moments.append(round(now, 2))
    return moments


def _steps(moments: Sequence[float], ends: float) -> Iterator[str]:
    """The keyframes: how far the screen has moved as each line below the last one comes."""
    yield "0% { transform: translateY(0px); }"
    for number, at in enumerate(moments):
        if number >= _LINES:
            yield f"{100 * at / ends:.3f}% {{ transform: translateY({_moved(number)}px); }}"


def _moved(newest: int) -> int:
    return -_HEIGHT * max(0, newest + 1 - _LINES)


def _line(number: int, ansi: str, at: float) -> str:
    text = Text.from_ansi(ansi)
    plain, bounds = text.plain, sorted({0, len(text.plain), *(edge for span in text.spans for edge in span[:2])})
    parts = []
    for first, end in pairwise(bounds):
        styles = [span.style for span in text.spans if span.start <= first and end <= span.end]
        style = Style.combine([Style.null(), *(Style.parse(one) if isinstance(one, str) else one for one in styles)])
        parts.append(f"<tspan{_attributes(style)}>{escape(plain[first:end], quote=False)}</tspan>")
    y = (number + 1) * _HEIGHT - 5
    return f'<text y="{y}" style="animation-delay: {at}s">{"".join(parts)}</text>'


def _attributes(style: Style) -> str:
    found = ""
    if style.bold:
        found += ' font-weight="bold"'
    if style.dim:
        found += ' opacity="0.6"'
    if style.color is not None and style.color.type is not ColorType.DEFAULT:
        found += f' fill="{_hex(style.color.get_truecolor(THEME))}"'
    return found


def _hex(colour: ColorTriplet) -> str:
    return colour.hex


if __name__ == "__main__":
    main()
