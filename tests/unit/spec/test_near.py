from __future__ import annotations

from kaspr_delta.spec.near import listing, nearest, suggestion


def test_capitals_do_not_matter_to_nearness() -> None:
    assert nearest("LEFTTABLE", ["leftTable", "rightTable"]) == "leftTable"


def test_what_is_far_is_not_suggested() -> None:
    assert nearest("zebra", ["leftTable", "rightTable"]) is None


def test_a_suggestion_lists_what_there_is_when_nothing_is_near() -> None:
    assert suggestion("zebra", ["b", "a"], "known here") == "known here: 'a' and 'b'"
    assert suggestion("zebra", ["b", "a"]) == ""


def test_a_listing_reads_as_a_phrase() -> None:
    assert listing(["a"]) == "'a'"
    assert listing(["a", "b", "c"]) == "'a', 'b' and 'c'"
