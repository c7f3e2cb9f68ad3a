from __future__ import annotations

from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaspr_delta.testing.difference import differences, largest_matching

Fields = dict[str, Any]


def row(key: Any, value: Any) -> Fields:
    return {"key": key, "value": value}


@pytest.mark.parametrize(
    ("expected", "found", "said"),
    [
        ([row("a", 1)], [row("a", 1)], []),
        ([row("a", 1), row("b", 2)], [row("b", 2), row("a", 1)], []),
        ([row("a", 1)], [row("a", 2)], ['"a": value is 2, expected 1']),
        ([row("a", 1)], [], ['missing: {"key": "a", "value": 1}']),
        ([], [row("a", 1)], ['not expected: {"key": "a", "value": 1}']),
        (
            [row("a", {"x": {"y": 1}, "z": 2})],
            [row("a", {"x": {"y": 3}, "w": 4})],
            [
                '"a": value.x.y is 3, expected 1',
                '"a": value.z is missing, expected 2',
                '"a": value.w is not expected, found 4',
            ],
        ),
        ([row("a", [1, 2])], [row("a", [1, 3])], ['"a": value[1] is 3, expected 2']),
        ([row("a", [1, 2])], [row("a", [1])], ['"a": value is [1], expected [1, 2]']),
        ([row("a", None)], [row("a", {"x": 1})], ['"a": value is {"x": 1}, expected null']),
    ],
)
def test_a_difference_names_the_key_the_field_and_both_values(
    expected: list[Fields], found: list[Fields], said: list[str]
) -> None:
    assert list(differences(expected, found)) == said


def test_records_of_one_key_are_compared_in_their_order() -> None:
    assert list(differences([row("a", 1), row("a", 2)], [row("a", 2), row("a", 1)])) == [
        '"a": value is 2, expected 1',
        '"a": value is 1, expected 2',
    ]


def test_a_field_that_is_not_written_is_not_compared() -> None:
    assert not list(differences([row("a", 1)], [{**row("a", 1), "timestamp": 5, "offset": 7}]))
    assert list(differences([{**row("a", 1), "timestamp": 4}], [{**row("a", 1), "timestamp": 5}])) == [
        '"a": timestamp is 5, expected 4'
    ]


def test_any_stands_for_every_value_but_not_for_none_at_all() -> None:
    assert not list(differences([row("a", {"at": "<any>"})], [row("a", {"at": [1]})]))
    assert list(differences([row("a", {"at": "<any>"})], [row("a", {})])) == [
        '"a": value.at is missing, expected "<any>"'
    ]


def test_those_without_a_key_take_the_first_that_equals_them() -> None:
    assert not list(differences([{"value": 1}, {"value": 2}], [row("b", 2), row("a", 1)]))
    assert not list(differences([row("<any>", 1), row("b", 2)], [row("b", 2), row("a", 1)]))
    assert list(differences([{"value": 1}], [row("a", 3), row("b", 1)])) == ['not expected: {"key": "a", "value": 3}']


def test_an_expected_any_leaves_what_another_one_needs() -> None:
    assert not list(differences([{"value": "<any>"}, {"value": 5}], [row("a", 5), row("b", 6)]))
    expected: list[Fields] = [{"value": {"x": "<any>"}}, {"value": {"x": 1, "y": 2}}, {"value": {"x": 1, "y": "<any>"}}]
    found = [row("a", {"x": 1, "y": 2}), row("b", {"x": 1, "y": 3}), row("c", {"x": 1})]
    assert not list(differences(expected, found))


def test_the_fields_of_a_key_have_no_order() -> None:
    assert not list(differences([row({"a": 1, "b": 2}, 1)], [row({"b": 2, "a": 1}, 1)]))


def test_windows_of_a_key_are_told_apart_where_they_are_named() -> None:
    found = [{**row("a", 1), "window_start": 60}, {**row("a", 2), "window_start": 0}]
    assert not list(differences(list(reversed(found)), found))
    assert not list(differences([row("a", 1), row("a", 2)], found))
    assert list(differences([{**row("a", 2), "window_start": 0}], found)) == [
        'not expected: {"key": "a", "value": 1, "window_start": 60}'
    ]


def test_a_truth_value_is_no_number_and_a_whole_fraction_is_one() -> None:
    assert list(differences([row("a", 1)], [row("a", True)])) == ['"a": value is true, expected 1']
    assert not list(differences([row("a", 19.0)], [row("a", 19)]))


@given(st.lists(st.lists(st.integers(0, 7), max_size=4), max_size=8))
def test_as_many_have_a_choice_as_networkx_finds(choices: list[list[int]]) -> None:
    chosen = largest_matching(choices)
    assert all(choice in choices[one] for one, choice in chosen.items())
    assert len(set(chosen.values())) == len(chosen)
    graph = nx.Graph([(f"one {one}", choice) for one, of_one in enumerate(choices) for choice in of_one])
    ones = [f"one {one}" for one, of_one in enumerate(choices) if of_one]
    assert len(chosen) == len(nx.bipartite.hopcroft_karp_matching(graph, ones)) // 2


def test_a_long_chain_of_choices_is_moved_without_recursion() -> None:
    # Each but the last would take the choice of the one before it: the last one moves all others.
    length = 3_000
    choices = [[at, at + 1] for at in range(length)]
    assert len(largest_matching([*choices, [0]])) == length + 1
