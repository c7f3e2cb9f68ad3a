from __future__ import annotations

from kaspr_delta.spec.near import listing, nearest, suggestion


def test_a_similar_name_is_found_in_other_capitals() -> None:
    assert nearest("LEFTTABLE", ["leftTable", "rightTable"]) == "leftTable"


def test_a_name_that_is_not_similar_is_not_suggested() -> None:
    assert nearest("zebra", ["leftTable", "rightTable"]) is None


def test_a_suggestion_lists_all_names_if_none_is_similar() -> None:
    assert suggestion("zebra", ["b", "a"], "known here") == "known here: 'a' and 'b'"
    assert suggestion("zebra", ["b", "a"]) == ""


def test_a_listing_reads_as_a_phrase() -> None:
    assert listing(["a"]) == "'a'"
    assert listing(["a", "b", "c"]) == "'a', 'b' and 'c'"
