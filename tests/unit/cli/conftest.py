from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import typer.main

from kaspr_delta.cli import main

# Typer makes all commands anew for every call, which takes longer than most of them run.
made_once = functools.cache(typer.main.get_command)


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    out: str
    err: str


Kaspr = Callable[..., Answer]


@pytest.fixture
def kaspr(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Kaspr:
    """Run the command ``kaspr-delta`` in this process; its exit code and its output."""
    monkeypatch.delenv("KASPR_DELTA_WAREHOUSE", raising=False)
    monkeypatch.setattr("typer.main.get_command", made_once)

    def run(*arguments: object) -> Answer:
        monkeypatch.setattr("sys.argv", ["kaspr-delta", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        code = end.value.code
        return Answer(code if isinstance(code, int) else int(code is not None), printed.out, printed.err)

    return run
