"""Both joins run without end while random rows come and go, and nothing is folded: what is decided is in logs alone."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kaspr_delta import Application
from kaspr_delta.engine.folding import Folding
from kaspr_delta.plan.join_plans import ForeignKeyJoinPlan
from tests.properties.naive_join import Sides, folded, text

if TYPE_CHECKING:
    import pytest

TABLES = {"left": "orders", "right": "products"}
JOINS = ("inner", "left")
_KEYS = 20
_PATIENCE = 120


def never_due(patched: pytest.MonkeyPatch) -> None:
    """Batches wait for others, however long."""
    patched.setattr(Folding, "due", property(lambda _: False))


@dataclass
class History:
    """Two tables, and both joins over them that follow."""

    app: Application
    drawn: random.Random
    sides: Sides = field(default_factory=Sides)

    def plan(self, join: str) -> ForeignKeyJoinPlan:
        """The plan of a join."""
        plan = self.app.plan.join(join)
        assert isinstance(plan, ForeignKeyJoinPlan)
        return plan

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
        stop, failures = threading.Event(), list[Exception]()

        def run() -> None:
            try:
                self.app.run_continuously(stop, every="100 milliseconds")
            except Exception as error:  # noqa: BLE001  raised where it is waited for
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        assert not failures, failures

    def wait(self) -> None:
        """Until the channels tell the joins of what is there."""
        deadline = time.monotonic() + _PATIENCE
        for join in JOINS:
            expected = self.sides.joined(join)
            while (found := self.told(join)) != expected:
                assert time.monotonic() < deadline, f"{join}: {found} is not {expected}"

    def told(self, join: str) -> dict[str, tuple[str, str | None]]:
        """What a channel tells, of which every record must change something."""
        records = self.app.channel(self.plan(join).channel).stored.orderBy("offset").collect()
        return folded(records)

    def stored(self, join: str) -> dict[str, tuple[str, str | None]]:
        """What stands in the result, each key once."""
        rows = self.app.delta.read(self.app.spark, self.plan(join).result).collect()
        found = {row["key"]: (row["left"], row["right"]) for row in rows}
        assert len(found) == len(rows)
        return found

    def changes(self, join: str) -> int:
        """How many changes a result has seen."""
        return self.app.delta.changes(self.app.spark, self.plan(join).result).count()

    def subscribed(self, join: str) -> dict[str, str]:
        """What the left keys point at, as the join's state has it."""
        rows = self.app.delta.read(self.app.spark, self.plan(join).subscriptions).where("fk IS NOT NULL").collect()
        return {row["key"]: row["fk"] for row in rows}

    def assert_folded(self) -> None:
        """Results and subscriptions are what the tables ask for."""
        for join in JOINS:
            assert self.stored(join) == self.sides.joined(join) == self.told(join)
            assert self.subscribed(join) == self.sides.foreign_keys()
