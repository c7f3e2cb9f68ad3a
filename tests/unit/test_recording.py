"""The animated picture of the demo."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from website.recording import PICTURE, Line, paced, picture, recorded

SVG = "{http://www.w3.org/2000/svg}"


def test_a_line_comes_with_its_time_and_its_colours(tmp_path: Path) -> None:
    code = "import os, time; print('\\033[1ma\\033[0m', flush=True); time.sleep(0.3); print(os.getcwd())"
    first, second = recorded([sys.executable, "-c", code], tmp_path)
    assert (first.ansi, second.ansi) == ("\x1b[1ma\x1b[0m", str(tmp_path.resolve()))
    assert second.at - first.at > 0.2


def test_a_command_that_fails_gives_no_picture(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        list(recorded([sys.executable, "-c", "raise SystemExit(3)"], tmp_path))


def test_a_reader_can_follow_and_does_not_wait_long() -> None:
    lines = [Line(0, "$ demo"), Line(40, "a table"), Line(40, "its rows"), Line(41, ""), Line(41, "the next one")]
    assert paced(lines) == [0.05, 2.05, 2.1, 3.6, 3.65]


def test_each_line_appears_in_its_second_and_a_full_screen_moves_up() -> None:
    svg = picture([Line(number / 10, f"\x1b[1mline\x1b[0m <{number}> & more") for number in range(35)])
    texts = ET.fromstring(svg).findall(f".//{SVG}text")  # noqa: S314  it was made here
    assert ["".join(text.itertext()) for text in texts] == [f"line <{number}> & more" for number in range(35)]
    assert [text.get("style") for text in texts[:2]] == ["animation-delay: 0.05s", "animation-delay: 0.15s"]
    assert texts[0][0].get("font-weight") == "bold"
    assert re.findall(r"% { transform: translateY\((-?\d+)px\)", svg) == ["0", "-18", "-36", "-54", "-72", "-90"]


def test_the_picture_shows_the_demo() -> None:
    shown = "".join(ET.parse(PICTURE).getroot().itertext())  # noqa: S314  it is ours
    for part in (
        "kaspr-delta demo",
        "The joined table",
        "The enriched topic",
        "Three changes",
        "the order was deleted",
    ):
        assert part in shown
    assert "/bin/kaspr-delta" not in shown  # no path of the machine that drew it
