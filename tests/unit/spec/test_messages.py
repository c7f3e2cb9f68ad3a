"""Hints quote the text that the author wrote, not the value that YAML makes of it."""

from __future__ import annotations

import pytest

from kaspr_delta.spec.loader import load_text

TABLE = "apiVersion: kaspr.io/v1alpha1\nkind: KasprTable\nmetadata: {{name: {}}}\nspec: {{name: t}}\n"
VALUES = "apiVersion: kaspr.io/v1alpha1\nkind: KasprTable\nmetadata: {{name: t}}\nspec: {{partitions: {}}}\n"
TASK = "apiVersion: kaspr.io/v1alpha1\nkind: KasprTask\nmetadata: {{name: t}}\nspec: {{schedule: {{{}}}}}\n"


def of_name(text: str) -> list[str]:
    return [str(finding) for finding in load_text(TABLE.format(text), "m.yaml").findings]


@pytest.mark.parametrize(
    "text", ["007", "1e3", "0x1F", "0o17", "1_000", "1.50", "+1", "-0", ".inf", "9223372036854775807"]
)
def test_a_number_in_the_place_of_text_is_quoted_as_it_is_written(text: str) -> None:
    quoted = f"m.yaml:3:18: error: 'metadata.name' must be text, found the number {text} (put it in quotes: \"{text}\")"
    assert of_name(text) == [quoted]


@pytest.mark.parametrize("text", ["true", "True", "FALSE"])
def test_a_truth_value_in_the_place_of_text_is_quoted_as_it_is_written(text: str) -> None:
    (message,) = of_name(text)
    assert message.endswith(f'found {text.lower()} (put it in quotes: "{text}")')


@pytest.mark.parametrize("text", ["~", "null", "Null"])
def test_a_null_that_is_written_is_quoted(text: str) -> None:
    (message,) = of_name(text)
    assert message.endswith(f'(the name of the resource; put it in quotes if it is text: "{text}")')


@pytest.mark.parametrize("text", ["yes", "on", "no", "12:30:00", "2024-01-01", "n"])
def test_text_that_only_looks_special_needs_no_quotes(text: str) -> None:
    assert of_name(text) == []


def test_a_number_of_another_kind_is_shown_as_it_is_written() -> None:
    (finding,) = load_text(VALUES.format("1e3"), "m.yaml").findings
    assert finding.message == "'spec.partitions' must be a whole number, found the number 1e3"


def test_the_text_behind_an_alias_is_quoted() -> None:
    text = "x: &x 007\n" + TABLE.format("*x")
    messages = [str(finding) for finding in load_text(text, "m.yaml").findings]
    assert any(message.endswith('found the number 007 (put it in quotes: "007")') for message in messages)


@pytest.mark.parametrize(
    ("schedule", "hint"),
    [
        ("interval: 15", "(a whole number followed by ms, s, m, h or d, such as '30s' or '5m')"),
        ("cron: 5", "(for example '0 9 * * mon-fri')"),
    ],
)
def test_a_number_that_is_no_good_as_text_either_is_not_to_be_quoted(schedule: str, hint: str) -> None:
    (*_, message) = (str(finding) for finding in load_text(TASK.format(schedule), "m.yaml").findings)
    assert message.endswith(hint), message
