"""Answers of a catalog that later runs need not ask for again."""

from __future__ import annotations

from pathlib import Path

from kaspr_delta.storage.folders import LocalFolder
from kaspr_delta.storage.layout import Layout
from kaspr_delta.storage.settled import Settled


def test_what_was_noted_is_known_until_it_is_forgotten(tmp_path: Path) -> None:
    settled = Settled(LocalFolder(tmp_path / "checkpoints"))
    settled.write({"orders": "a"})
    settled.note_waiting(nothing=True)
    assert (settled.layouts(), settled.nothing_waits) == ({"orders": "a"}, True)
    settled.note_waiting(nothing=False)
    assert not settled.nothing_waits
    settled.note_waiting(nothing=True)
    settled.forget()
    assert (settled.layouts(), settled.nothing_waits) == ({}, False)


def test_where_there_is_no_disk_for_it_nothing_is_known(tmp_path: Path) -> None:
    settled = Settled(LocalFolder(tmp_path / "no" / "volume"))
    settled.write({"orders": "a"})
    settled.note_waiting(nothing=True)
    settled.forget()
    assert (settled.layouts(), settled.nothing_waits) == ({}, False)
    (tmp_path / "_layouts.json").write_text("{half")
    assert Settled(LocalFolder(tmp_path)).layouts() == {}


def test_each_part_of_a_layout_is_in_its_fingerprint() -> None:
    layouts = [
        Layout("a INT"),
        Layout("a BIGINT"),
        Layout("a INT", change_feed=True),
        Layout("a INT", feed_retention=1),
    ]
    assert len({layout.fingerprint for layout in layouts}) == len(layouts)
    assert Layout("a INT").fingerprint == layouts[0].fingerprint
