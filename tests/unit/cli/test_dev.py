"""The command ``dev`` without Java: a run does nothing, and no session starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kaspr_delta import Application
from kaspr_delta.cli import dev as command
from kaspr_delta.testing.saves import saves
from tests.manifests import manifests
from tests.unit.cli.conftest import Kaspr

APP = manifests("shop", "KasprApp/shop: {}\nKasprTable/prices: {}\n")


def given(*rows: str) -> str:
    return f"test: a rule\ngiven: {{tables: {{prices: [{', '.join(rows)}]}}}}\nthen: {{}}\n"


@pytest.fixture(autouse=True)
def no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Application, "run", lambda *_, **__: None)
    monkeypatch.setattr(command, "starting_spark", lambda *_: None)
    (tmp_path / "app.yaml").write_text(APP)
    (tmp_path / "app.test.yaml").write_text(given("{key: a, value: {price: 1, name: lamp}}"))


@pytest.fixture
def saving(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Save files between two looks, one text after the other, and then end as Ctrl-C does."""

    def use(*saved: tuple[Path, str]) -> None:
        left = list(saved)

        def wait(_: float) -> bool:
            if not left:
                return True
            file, text = left.pop(0)
            file.write_text(text)
            return False

        monkeypatch.setattr("kaspr_delta.testing.saves.saves", lambda folder, _, without: saves(folder, wait, without))

    return use


def test_a_save_shows_the_rows_that_came_out_differently(
    kaspr: Kaspr, tmp_path: Path, saving: Callable[..., None]
) -> None:
    rows = ["{key: a, value: {price: 2, name: lamp}}", *(f"{{key: b{n}, value: {n}}}" for n in range(3))]
    saving((tmp_path / "app.test.yaml", given(*rows)), (tmp_path / "notes.txt", "nothing that counts"))
    answer = kaspr("dev", "--rows", 2)
    assert answer.code == 0
    first, then = answer.out.split("first run", 1)
    assert [line.split() for line in first.splitlines()] == [
        ["resource", "rows"],
        ["table/prices", "1"],
        ["dead", "letters", "0"],
    ]
    lines = then.splitlines()[1:]
    assert lines[:4] == [
        "table/prices: 4 rows differ",
        '  ~ "a"  value.price: 1 -> 2',
        '  + "b0"  0',
        "  and 2 more; --rows shows more of them",
    ]
    assert lines[4].startswith("rows of 1 resource differ: ")
    assert lines[5].startswith("no row came out differently: ")
    assert answer.err.count("waiting for a save") == 3
    assert answer.err.endswith("stopped\n")


def test_manifests_and_fixtures_with_errors_are_not_applied(
    kaspr: Kaspr, tmp_path: Path, saving: Callable[..., None]
) -> None:
    saving(
        (tmp_path / "app.yaml", f"{APP}---\nkind: KasprTabel\n"),
        (tmp_path / "app.test.yaml", "test: a rule\n"),
        (tmp_path / "app.yaml", APP),
        (tmp_path / "app.test.yaml", given("{key: c, value: 1}").replace("prices", "price")),
        (tmp_path / "app.test.yaml", given("{key: c, value: 1}")),
    )
    answer = kaspr("dev")
    assert answer.code == 0
    assert answer.err.count("nothing was applied") == 3
    assert "app.test.yaml:1:1: error: required field 'then' is missing" in answer.err
    assert "no table 'price' (did you mean 'prices'?)" in answer.err
    assert answer.out.splitlines()[-3:-1] == [
        '  - "a"  {"price": 1, "name": "lamp"}',
        '  + "c"  1',
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("none",), "there is no such file or folder"), (("--warehouse", "s3://b/wh"), "give a folder as --warehouse")],
)
def test_a_wrong_call_says_what_is_wrong(kaspr: Kaspr, arguments: tuple[str, ...], said: str) -> None:
    answer = kaspr("dev", *arguments)
    assert (answer.code, said in answer.err) == (2, True)


def test_the_warehouse_of_the_environment_stays_as_it_is(
    kaspr: Kaspr, tmp_path: Path, saving: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    saving()
    monkeypatch.setenv("KASPR_DELTA_WAREHOUSE", str(tmp_path / "production"))
    assert kaspr("dev").code == 0
    assert not (tmp_path / "production").exists()
    assert kaspr("dev", "--warehouse", tmp_path / "wh").code == 0
    assert (tmp_path / "wh").is_dir()
