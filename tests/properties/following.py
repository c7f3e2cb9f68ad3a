"""Both joins run without end while random rows come and go, and nothing is folded: what is decided is in logs alone."""

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
from tests.properties.shown import Shown

if TYPE_CHECKING:
    import pytest

TABLES = {"left": "orders", "right": "products"}
JOINS = ("inner", "left")
_KEYS = 20
_PATIENCE = 120


def never_due(patched: pytest.MonkeyPatch) -> None:
    """Batches wait for others, however long."""
    patched.setattr(Folding, "due", property(lambda _: False))


ALWAYS_DUE = Limits(fold_rest=0)
"""No batch waits for others; states stay behind all the same."""


@dataclass
class History:
    """Two tables, and both joins over them that follow."""

    app: Application
    drawn: random.Random
    sides: Sides = field(default_factory=Sides)

    def step(self, side: str, changes: int) -> None:
        """Change, make and delete some rows of a side."""
        values = self.draw(side, changes)
        rows = [(json.loads(key), value if value is None else json.loads(value)) for key, value in values.items()]
        self.app.table(TABLES[side]).put(rows)

    def draw(self, side: str, changes: int) -> dict[str, str | None]:
        """The rows of a step; None deletes."""
        values = {text(f"{side[0]}{self.drawn.randrange(_KEYS)}"): self._value(side) for _ in range(changes)}
        for key, value in values.items():
            self.sides[side].pop(key, None)
            if value is not None:
                self.sides[side][key] = value
        return values

    def _value(self, side: str) -> str | None:
        if self.drawn.random() < 0.2:
            return None
        n = self.drawn.randrange(3)
        return text({"fk": f"r{self.drawn.randrange(_KEYS)}", "n": n} if side == "left" else {"n": n})

    @contextmanager
    def following(self) -> Iterator[None]:
        """Both joins run until this ends."""
        with running(self.app) as failures:
            yield
        assert not failures, failures

    def wait(self) -> None:
        """Until the channels tell the joins of what is there."""
        deadline = time.monotonic() + _PATIENCE
        for join in JOINS:
            expected = self.sides.joined(join)
            while (found := Shown(self.app, join).told()) != expected:
                assert time.monotonic() < deadline, f"{join}: {found} is not {expected}"

    def assert_folded(self) -> None:
        """Results and subscriptions are what the tables ask for."""
        for join in JOINS:
            shown = Shown(self.app, join)
            assert shown.result() == self.sides.joined(join) == shown.told()
            assert shown.subscribed() == self.sides.foreign_keys()
