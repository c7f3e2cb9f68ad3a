"""Commands on a disk with an error: one sentence with the path and the remedy, and exit code 1."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.small_disk import small_disk
from tests.unit.cli.conftest import Kaspr

MANIFESTS = Path(__file__).parents[3] / "bundles" / "order-system"
RECORD = Path(__file__).with_name("record.jsonl")
WRITING = [
    ("apply", "-f", MANIFESTS),
    ("run", MANIFESTS),
    ("demo",),
    ("serve", MANIFESTS),
]
READING = [
    ("run",),
    ("get", "all"),
    ("get", "events"),
    ("describe", "ktable", "orders"),
    ("delete", "ktable", "orders"),
    ("table", "orders", "dump"),
    ("table", "orders", "load", RECORD),
    ("produce", "raw-orders", RECORD),
    ("consume", "raw-orders"),
    ("export", "orders", "orders.csv"),
    ("dead-letters",),
    ("status",),
    ("rebuild", "join/orders-products-join"),
    ("serve",),
]
_NOBODY = 65534


def _name(command: tuple[object, ...]) -> str:
    return " ".join(Path(str(word)).name for word in command)


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java is not needed: commands fail when they open Spark's log, before Spark starts."""
    monkeypatch.setattr("kaspr_delta.runtime.session.check_java", lambda: 17)


@pytest.fixture
def disk_folder(tmp_path: Path) -> Iterator[Path]:
    """A small disk, which ``make_read_only`` makes read-only."""
    with small_disk(tmp_path / "disk") as disk:
        yield disk.folder


@contextlib.contextmanager
def _closed(folder: Path) -> Iterator[None]:
    """Close a folder to this process, also if the process runs as root."""
    folder.chmod(0)
    me = os.geteuid()
    if me == 0:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(me)


def _sentences(printed: str) -> list[str]:
    """The lines without those about the start of Spark."""
    return [line for line in printed.splitlines() if not line.startswith("Starting Spark")]


def make_read_only(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)  # noqa: S603, S607


@pytest.mark.parametrize("command", [*WRITING, *READING], ids=_name)
@pytest.mark.parametrize("below", ["wh", ""])
def test_a_warehouse_below_a_file_is_an_error_that_names_the_file(
    kaspr: Kaspr, tmp_path: Path, command: tuple[object, ...], below: str
) -> None:
    (tmp_path / "file").touch()
    answer = kaspr(*command, "--warehouse", tmp_path / "file" / below)
    assert answer.code == 1
    assert f"{tmp_path / 'file'} is a file where a folder is needed. Choose another folder" in answer.err
    assert len(_sentences(answer.err)) == 1


@pytest.mark.parametrize("command", WRITING, ids=_name)
def test_a_new_warehouse_on_a_read_only_disk_is_an_error_with_the_remedy(
    kaspr: Kaspr, disk_folder: Path, command: tuple[object, ...]
) -> None:
    make_read_only(disk_folder)
    answer = kaspr(*command, "--warehouse", disk_folder / "wh")
    assert answer.code == 1
    (sentence,) = _sentences(answer.err)
    assert "cannot be written: its disk is read-only. Make it writable, or choose another folder" in sentence
    assert str(disk_folder / "wh") in sentence


@pytest.mark.parametrize("command", [one for one in [*WRITING, *READING] if one != ("serve",)], ids=_name)
def test_commands_that_write_to_a_read_only_warehouse_fail_with_one_sentence(
    kaspr: Kaspr, disk_folder: Path, tmp_path: Path, command: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without ``serve``, which only reads and does not end."""
    monkeypatch.chdir(tmp_path)  # a file is exported there
    warehouse = disk_folder / "wh"
    assert kaspr("apply", "-f", MANIFESTS, "--warehouse", warehouse).code == 0
    make_read_only(disk_folder)
    if command[0] in {"get", "describe", "consume", "export", "dead-letters", "status"} or command[-1] == "dump":
        assert kaspr(*command, "--warehouse", warehouse).code == 0
    else:
        answer = kaspr(*command, "--warehouse", warehouse)
        assert (answer.code, len(_sentences(answer.err))) == (1, 1)
        assert "cannot be written: its disk is read-only" in answer.err


@pytest.mark.parametrize("command", [*WRITING, *READING], ids=_name)
def test_a_warehouse_without_permission_is_an_error_that_names_it(
    kaspr: Kaspr, tmp_path: Path, command: tuple[object, ...]
) -> None:
    warehouse, file = tmp_path / "closed", tmp_path / "file"
    warehouse.mkdir()
    file.touch()
    kaspr(*command, "--warehouse", file)  # imports all modules first: they may be readable by root only
    with _closed(warehouse):
        answer = kaspr(*command, "--warehouse", warehouse)
    assert (answer.code, len(_sentences(answer.err))) == (1, 1)
    assert "cannot be used: permission is denied. Change its permissions" in answer.err
    assert str(warehouse) in answer.err


def test_doctor_writes_nothing_into_a_folder_that_is_no_warehouse(tmp_path: Path) -> None:
    """The log for messages of native libraries is written only in a warehouse."""
    program = [sys.executable, "-m", "kaspr_delta", "doctor", "--warehouse", str(tmp_path)]
    subprocess.run(program, check=False, capture_output=True)  # noqa: S603
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
def test_a_panic_of_delta_rs_on_a_full_disk_does_not_reach_standard_error(kaspr: Kaspr, tmp_path: Path) -> None:
    """Needs another process: Rust prints to the process's standard error, not to ``sys.stderr``."""
    with small_disk(tmp_path / "disk") as disk:
        warehouse = disk.folder / "wh"
        apply = ["apply", "-f", str(MANIFESTS), "--warehouse", str(warehouse)]
        assert kaspr(*apply).code == 0
        assert kaspr("delete", "ktable", "orders", "--warehouse", warehouse).code == 0
        (warehouse / "spark.log").touch()
        disk.fill_except_for(0)
        program = [sys.executable, "-m", "kaspr_delta", *apply]
        done = subprocess.run(program, check=False, capture_output=True, text=True)  # noqa: S603
        assert done.returncode == 1
        assert done.stderr == (
            f"the disk of {warehouse} is full: free space, then run again; nothing that was committed is lost\n"
        )
        disk.free()
        assert "kasprtable.kaspr.io/orders created" in kaspr(*apply).out
