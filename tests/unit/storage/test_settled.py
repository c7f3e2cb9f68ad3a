"""Answers of a catalog that later runs need not ask for again."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from kaspr_delta.spec.ddl import Column, Type, columns_of
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
    settled.note_old_removed(at := datetime(2026, 3, 1, 12, tzinfo=timezone.utc))
    assert settled.old_removed_at() == at
    settled.forget()
    assert (settled.layouts(), settled.nothing_waits, settled.old_removed_at()) == ({}, False, None)


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


def test_columns_are_kept_unless_their_types_are_unknown(tmp_path: Path) -> None:
    """A source may have a type that no manifest names, such as GEOMETRY, and a later version may have written more."""
    settled = Settled(LocalFolder(tmp_path))
    known = columns_of("`a b` STRING, n DECIMAL(10, 2), s STRUCT<x: ARRAY<INT>>")
    settled.write_columns({"c.s.t": known, "c.s.places": (Column("at", Type("GEOMETRY")),), "c.s.nothing": ()})
    assert settled.columns() == {"c.s.t": known}
    (tmp_path / "_columns.json").write_text('{"c.s.t": "at GEOMETRY", "c.s.u": "n INT"}')
    assert settled.columns() == {"c.s.u": columns_of("n INT")}


@pytest.mark.parametrize("text", ["[]", "null", '{"c.s.t": null}', '{"c.s.t'])
def test_a_file_that_says_something_else_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "_columns.json").write_text(text)
    assert Settled(LocalFolder(tmp_path)).columns() == {}
