"""The applications in bundles/ do what their READMEs show: the commands are run, and what stands below is printed.

In what is shown `…` stands for anything: offsets, say, which depend on the commits before.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from kaspr_delta import Application
from kaspr_delta.cli import application

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
# The order system is shown by the demo, which has its own tests.
BUNDLES = ["event-counting", "user-preferences", "windowed-counters"]
# What these show is also shown by one application that all shapes share.
MORE_BUNDLES = ["fraud-detection", "order-entity", "order-totals", "page-views"]


def console(readme: Path) -> Iterator[tuple[str, list[str]]]:
    """The commands of a README, each with the lines that stand below it."""
    for block in re.findall(r"```console\n(.*?)```", readme.read_text(), re.DOTALL):
        for part in re.split(r"(?m)^\$ ", block)[1:]:
            command, *shown = part.strip().splitlines()
            yield command, shown


def shows(shown: list[str], printed: list[str]) -> bool:
    """Whether lines were printed as a README shows them."""
    patterns = [".*".join(map(re.escape, line.split("…"))) for line in shown]
    return len(shown) == len(printed) and all(map(re.fullmatch, patterns, printed))


@pytest.mark.parametrize("bundle", [*BUNDLES, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE_BUNDLES)])
@pytest.mark.usefixtures("spark")
def test_a_readme_shows_what_its_commands_print(bundle: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("KASPR_DELTA_WAREHOUSE", str(tmp_path))
    commands = list(console(ROOT / "bundles" / bundle / "README.md"))
    assert any(shown for _, shown in commands)
    for command, shown in commands:
        name, *arguments = shlex.split(command)
        assert name == "kaspr-delta"
        result = CliRunner().invoke(application, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        if shown:
            printed = result.stdout.splitlines()
            assert shows(shown, printed), f"{command}\n{result.stdout}"


def test_every_bundle_is_tested() -> None:
    folders = {folder.name for folder in (ROOT / "bundles").iterdir() if folder.is_dir()}
    assert folders == {*BUNDLES, *MORE_BUNDLES, "order-system"}


def test_s1_3_s1_4_s1_5_s1_6_events_meet_what_is_known_of_their_user(spark: SparkSession, tmp_path: Path) -> None:
    with Application.open(ROOT / "bundles" / "user-preferences", warehouse=tmp_path, spark=spark) as app:
        app.topic("preferences-app-user-preferences-changelog").produce(
            [{"key": "u1", "value": {"channel": "sms"}}, {"key": "u2", "value": {"language": "de"}}]
        )
        app.table("api-cache").put({"weather": 21})
        app.topic("raw-events").produce(
            [{"value": {"user_id": user, "timestamp": 1, "api_key": "weather"}} for user in ("u1", "u2", "u3", "u1")]
        )
        app.topic("cache-actions").produce([{"value": {"action": "delete", "id": name}} for name in ("none", "none")])
        app.run()
        enriched = [record["value"] for record in app.topic("enriched-events").records()]
        assert [value.get("notification_channel") for value in enriched] == ["sms", "email", None, "sms"]
        assert [value["cached"] for value in enriched] == [21] * 4
        assert app.table("last-seen").get("u1") == {"last_seen": 1, "event_count": 2}
        assert len(app.topic("cache-actions-done").records()) == 2
        assert app.dead_letters() == []
