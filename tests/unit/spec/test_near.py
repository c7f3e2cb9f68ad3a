from __future__ import annotations

from kaspr_delta.spec.near import nearest, suggestion


def test_a_similar_name_is_found_in_other_capitals_and_no_other_one() -> None:
    assert nearest("LEFTTABLE", ["leftTable", "rightTable"]) == "leftTable"
    assert nearest("zebra", ["leftTable", "rightTable"]) is None


def test_a_suggestion_lists_all_names_if_none_is_similar() -> None:
    assert suggestion("zebra", ["b", "a"], "known here") == "known here: 'a' and 'b'"
    assert suggestion("zebra", ["b", "a"]) == ""
