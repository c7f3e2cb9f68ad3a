from __future__ import annotations

import re
import shlex

import pytest

from kaspr_delta.cli import application
from tests.unit.cli.conftest import Kaspr, made_once

COMMANDS = {info.name: info.callback for info in application.registered_commands}
WITHOUT_WAREHOUSE = {"init", "deploy", "logs", "purge", "copy"}


def examples(name: str) -> list[str]:
    """The command lines in a command's help."""
    text = COMMANDS[name].__doc__ or ""
    return re.findall(r"^ {8}(.*kaspr-delta .*)$", text.partition("For example:")[2], re.MULTILINE)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_examples_that_can_be_parsed(name: str) -> None:
    shown = examples(name)
    assert shown
    for line in shown:
        call = re.split(r"[|] ", line)[-1].split(">", 1)[0].removesuffix(" 2")
        program, command, *arguments = shlex.split(call)
        assert (program, command) == ("kaspr-delta", name)
        # Parses the arguments and runs nothing. A wrong call raises its error.
        made_once(application).commands[name].make_context(name, arguments)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", list(COMMANDS))
def test_help_has_no_broken_lines_and_shows_the_warehouse_variable_and_the_application(
    kaspr: Kaspr, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for width in (70, 110):
        monkeypatch.setenv("COLUMNS", str(width))
        help_text = kaspr(name, "--help").out
        # A line break that the source has inside a sentence would leave a line of one word.
        broken = [line for line in help_text.splitlines() if re.fullmatch(r" \w+ *", line)]
        assert broken == []
        assert ("KASPR_DELTA_WAREHOUSE" in help_text) is (name not in WITHOUT_WAREHOUSE)
        assert ("--app" in help_text) is (name not in {"init", "deploy", "purge", "copy"})
    assert f" {name} " in kaspr("--help").out


def test_the_plan_as_tables_shows_inputs_and_outputs_of_resources(
    kaspr: Kaspr, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    answer = kaspr("plan", "bundles/order-entity", "-o", "table")
    rows = [re.split(r" {2,}", line.strip()) for line in answer.out.splitlines()]
    assert ["2", "join/completed-orders", "table/orders, topic/order-events", "channel/completed-orders"] in rows
    assert ["4", "table/order-entities", "join/completed-order-details", "its rows"] in rows
