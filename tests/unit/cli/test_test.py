"""The command ``test`` without Java: a run does nothing, and no session starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaspr_delta import Application
from kaspr_delta.application import Starting
from kaspr_delta.cli import test as command
from kaspr_delta.testing.fixtures import Fixture
from kaspr_delta.testing.run import Result
from kaspr_delta.testing.saves import saves
from tests.manifests import manifests
from tests.unit.cli.conftest import Kaspr

APP = manifests("shop", "KasprApp/shop: {}\nKasprTable/prices: {}\n")
GIVEN = "given: {tables: {prices: [{key: a, value: 1}]}}\n"


@pytest.fixture(autouse=True)
def no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Application, "run", lambda *_, **__: None)
    monkeypatch.setattr(command, "starting_spark", lambda *_: None)
    (tmp_path / "app.yaml").write_text(APP)


def test_each_fixture_has_a_line_and_one_that_fails_its_differences(kaspr: Kaspr, tmp_path: Path) -> None:
    passes, fails = (f"{GIVEN}then: {{tables: {{prices: [{{key: a, value: {value}}}]}}}}\n" for value in (1, 2))
    (tmp_path / "a.test.yaml").write_text(f"test: one is one\n{passes}---\ntest: one is two\n{fails}")
    answer = kaspr("test")
    lines = answer.out.splitlines()
    assert answer.code == 1
    assert (lines[0].split()[0], lines[0].endswith("one is one")) == ("ok", True)
    assert (lines[1].split()[0], lines[1].endswith("one is two")) == ("FAILED", True)
    assert lines[2:] == ["a.test.yaml:5:1", "table/prices", '  "a": value is 1, expected 2', "1 passed, 1 failed"]
    (tmp_path / "a.test.yaml").write_text(f"test: one is one\n{passes}")
    assert kaspr("test", tmp_path / "a.test.yaml").code == 0


def test_values_of_parameters_are_those_of_the_command(kaspr: Kaspr, tmp_path: Path) -> None:
    described = manifests("shop", "KasprApp/shop: {}\nKasprTable/prices: {description: '${whose}'}\n")
    (tmp_path / "app.yaml").write_text(described)
    (tmp_path / "a.test.yaml").write_text("test: nothing\nthen: {}\n")
    assert kaspr("test", "--set", "whose=ours").code == 0
    refused = kaspr("test")
    assert (refused.code, "whose" in refused.out) == (1, True)


def test_manifests_that_cannot_run_fail_their_own_fixtures_only(kaspr: Kaspr, tmp_path: Path) -> None:
    for name, text in (("broken", APP.replace("spec: {}", "spec: {no: 1}")), ("right", APP)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "app.yaml").write_text(text)
        (tmp_path / name / "a.test.yaml").write_text(f"test: {name}\n{GIVEN}then: {{}}\n")
    (tmp_path / "app.yaml").unlink()
    answer = kaspr("test")
    assert answer.code == 1
    assert "  broken/app.yaml:" in answer.out
    assert answer.out.splitlines()[-1] == "1 passed, 1 failed"


def test_an_error_of_the_package_itself_is_raised_after_the_results_of_the_others(
    kaspr: Kaspr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.test.yaml").write_text(f"test: first\n{GIVEN}then: {{}}\n---\ntest: second\n{GIVEN}then: {{}}\n")
    run = Fixture.run

    def broken(fixture: Fixture, starting: Starting) -> Result:
        if "first" in str(fixture):
            raise ZeroDivisionError
        return run(fixture, starting)

    monkeypatch.setattr(Fixture, "run", broken)
    with pytest.raises(ZeroDivisionError):
        kaspr("test")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "has no fixtures: these are files named *.test.yaml, beside manifests"),
        (("none",), 2, "none: there is no such file or folder"),
        (("--warehouse", "wh"), 2, "a test has a warehouse of its own"),
        (("bad.test.yaml",), 1, "bad.test.yaml:1:1: error: required field 'then' is missing"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(
    kaspr: Kaspr, tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    if "bad.test.yaml" in arguments:
        (tmp_path / "bad.test.yaml").write_text("test: a rule\n")
    answer = kaspr("test", *arguments)
    assert (answer.code, said in answer.err) == (code, True)


def test_watch_runs_again_when_a_file_was_saved(kaspr: Kaspr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fixture = tmp_path / "a.test.yaml"
    fixture.write_text("test: a rule\n")
    slept: list[float] = []

    class Ended(SystemExit):
        pass

    def wait(seconds: float) -> bool:
        slept.append(seconds)
        if len(slept) == 2:
            fixture.write_text(f"test: a longer rule\n{GIVEN}then: {{}}\n")
        if len(slept) == 5:
            raise Ended(0)
        return False

    monkeypatch.setattr("kaspr_delta.testing.saves.saves", lambda folder, _: saves(folder, wait))
    answer = kaspr("test", "--watch")
    assert answer.out.count("1 passed, 0 failed") == 1
    assert "required field 'then' is missing" in answer.err
