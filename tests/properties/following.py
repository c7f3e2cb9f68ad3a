"""Two joins run continuously while random rows change. Their batches, or only their states, are folded at the end."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kaspr_delta import Application
from kaspr_delta.engine.batch.folding import Folding
from kaspr_delta.storage.limits import Limits
from tests.continuous import running
from tests.properties.naive_join import Sides, text
from tests.properties.shown import JOINS, TABLES, JoinReader

if TYPE_CHECKING:
    import pytest

_KEYS = 20
_PATIENCE = 120


def postpone_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pending batches wait until the run ends."""
    monkeypatch.setattr(Folding, "due", property(lambda _: False))


FOLD_AT_ONCE = Limits(fold_rest=0)
"""Limits with which batches are folded at once. States are still deferred."""


@dataclass
class History:
    """Random changes of two tables, and both joins over them."""

    app: Application
    dice: random.Random
    sides: Sides = field(default_factory=Sides)

    def step(self, side: str, changes: int) -> None:
        """Insert, update and delete some rows of a side."""
        values = self.draw(side, changes)
        rows = [(json.loads(key), value if value is None else json.loads(value)) for key, value in values.items()]
        self.app.table(TABLES[side]).put(rows)

    def draw(self, side: str, changes: int) -> dict[str, str | None]:
        """Draw the rows of a step, and note them in ``sides``; None deletes."""
        values = {text(f"{side[0]}{self.dice.randrange(_KEYS)}"): self._value(side) for _ in range(changes)}
        for key, value in values.items():
            self.sides[side].pop(key, None)
            if value is not None:
                self.sides[side][key] = value
        return values

    def _value(self, side: str) -> str | None:
        if self.dice.random() < 0.2:
            return None
        n = self.dice.randrange(3)
        return text({"fk": f"r{self.dice.randrange(_KEYS)}", "n": n} if side == "left" else {"n": n})

    @contextmanager
    def following(self) -> Iterator[None]:
        """Run both joins until the block ends."""
        with running(self.app) as failures:
            yield
        assert not failures, failures

    def wait(self) -> None:
        """Wait until the channels add up to the joins of the current rows."""
        deadline = time.monotonic() + _PATIENCE
        for join in JOINS:
            expected = self.sides.joined(join)
            while (found := JoinReader(self.app, join).folded_channel()) != expected:
                assert time.monotonic() < deadline, f"{join}: {found} is not {expected}"

    def assert_folded(self) -> None:
        """Assert that results, channels and subscriptions match the tables."""
        for join in JOINS:
            JoinReader(self.app, join).assert_joins(self.sides)
