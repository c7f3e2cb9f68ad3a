from __future__ import annotations

from pathlib import Path

import pytest

from kaspr_delta.cli import copy
from kaspr_delta.runtime.applying import apply_manifests
from kaspr_delta.spec.loader import load_path
from kaspr_delta.storage.namespace import Warehouse
from tests.documented import ROOT
from tests.unit.cli.conftest import Kaspr

BUNDLE = ROOT / "bundles" / "order-system"


def test_a_copy_says_what_was_checked_and_is_opened_by_other_commands(kaspr: Kaspr, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    kaspr("apply", "-f", BUNDLE, "--warehouse", source)
    (tmp_path / "records").write_text('{"key": "1", "value": {}}\n{"key": "2", "value": {}}\n')
    kaspr("produce", "raw-orders", tmp_path / "records", "--warehouse", source)
    answer = kaspr("copy", source, target)
    assert answer.code == 0
    assert f"{target} is complete" in answer.err
    heading, numbers, checked = answer.out.splitlines()
    assert heading.split() == ["application", "tables", "commits", "rows", "files", "bytes"]
    assert numbers.split()[0] == "order_system"
    assert len(numbers.split()) == 6
    assert checked.startswith("checked: each file and its size")
    assert kaspr("consume", "raw-orders", "--warehouse", target).out.count("\n") == 2


def test_a_copy_that_cannot_begin_is_one_sentence(kaspr: Kaspr, tmp_path: Path) -> None:
    apply_manifests(Warehouse(str(tmp_path / "source")), load_path(BUNDLE))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for arguments, sentence in (
        ((tmp_path / "source", tmp_path / "full"), "is not empty: name an empty folder"),
        ((tmp_path / "nothing", tmp_path / "target"), "there is no application in"),
        ((tmp_path / "source", "hdfs://host/wh"), "a warehouse cannot be at hdfs://"),
        ((tmp_path / "source", "unity://main.shop/volume"), "is a catalog"),
    ):
        answer = kaspr("copy", *arguments)
        assert (answer.code, answer.out, len(answer.err.strip().splitlines())) == (2, "", 1)
        assert sentence in answer.err


def test_lines_of_progress_come_from_time_to_time(
    kaspr: Kaspr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply_manifests(Warehouse(str(tmp_path / "source")), load_path(BUNDLE))
    monkeypatch.setattr(copy, "_BETWEEN_LINES", 0.0)
    answer = kaspr("copy", tmp_path / "source", tmp_path / "target")
    lines = [line for line in answer.err.splitlines() if line.startswith("copied order_system: ")]
    files = [int(line.split()[2]) for line in lines]
    assert files == [*range(1, len(lines) + 1)]
    assert lines[-1].split()[2] == lines[-1].split()[4]
