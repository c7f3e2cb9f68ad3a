"""Joins of two tables: by a foreign key, and by the same key."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tests.chaos.shapes.shape import SHAPES, Claim, Inputs, Shape, evaluated
from tests.chaos.tables import Tables, Values, canonical, key_text, pair, plain, texts
from tests.properties import naive_join


@dataclass(frozen=True)
class TableJoin(Shape):
    """A join of two tables, with a result table."""

    left: str
    right: str
    type: str

    has_fields = True
    can_rebuild = True

    @property
    def reads(self) -> Sequence[str]:
        return [self.left, self.right]

    @property
    def ref(self) -> str:
        return f"join/{self.name}"

    def fields(self, inputs: Inputs, value: str) -> str:
        left = inputs.fields(self.left, f"{value}['left']")
        right = inputs.fields(self.right, f"{value}['right']") if self.type == "outer" else "{}"
        return f"({left} if {value}.get('left') is not None else {right})"

    def values(self, tables: Tables) -> Values:
        return tables.result(self.name)

    def claims(self, inputs: Inputs, tables: Tables) -> Iterator[Claim]:
        """The folded channel, the result and its folded change feed equal the expected join."""
        joined = self.joined(inputs, inputs.values(self.left, tables), inputs.values(self.right, tables))
        expected = texts(joined)
        channel = tables.appended(f"channel__{self.name}_channel")
        records = [_spelled(record) for record in channel if record["kind"] in {"value", "tombstone"}]
        yield Claim("channel folded", expected, _left_texts(naive_join.folded(records)))
        yield from self.result_claims(inputs, joined, tables)

    def result_claims(self, inputs: Inputs, joined: Values, tables: Tables) -> Iterator[Claim]:
        """The claims about the result and its change feed."""
        expected, rows = texts(joined), tables.rows(self.name)
        yield Claim("result", expected, texts(self.values(tables)), prompt=False)
        yield Claim("rows of the result", {"count": str(len(expected))}, {"count": str(len(rows))}, prompt=False)
        feed = [_spelled(row) for row in tables.feed(self.name)]
        yield Claim("feed folded", expected, _left_texts(naive_join.replayed(feed)), prompt=False)

    @abstractmethod
    def joined(self, inputs: Inputs, left: Values, right: Values) -> dict[str, Any]:
        """The expected join of these rows."""


@SHAPES.add
@dataclass(frozen=True)
class ForeignKeyJoin(TableJoin):
    """A foreign-key join. ``by``: a column has the foreign key, or a function returns it."""

    by: Literal["column", "function"]

    weight = 4

    @classmethod
    def draw(cls, dice: random.Random, name: str, inputs: Inputs) -> ForeignKeyJoin:
        left, right = dice.choice(inputs.has_fields()), dice.choice(inputs.has_fields())
        by: Literal["column", "function"] = "column" if left in inputs.sources and dice.random() < 0.5 else "function"
        return cls(name, left, right, dice.choice(["inner", "left"]), by)

    def manifest(self, inputs: Inputs) -> str:
        said = "  column: fk"
        if self.by == "function":
            said = f"  extractor:\n    python: |\n      def points_at(value):\n          return {self._fk(inputs)}"
        return (
            f"kind: KasprJoin\nspec:\n  leftTable: {self.left}\n  rightTable: {self.right}\n  type: {self.type}\n{said}"
        )

    def joined(self, inputs: Inputs, left: Values, right: Values) -> dict[str, Any]:
        pairs = {
            key: _pair(value, right.get(fk or "")) for key, (value, fk) in self._rows_with_fk(inputs, left).items()
        }
        return {key: one for key, one in pairs.items() if self.type == "left" or "right" in one}

    def claims(self, inputs: Inputs, tables: Tables) -> Iterator[Claim]:
        """Also: the subscriptions are the left keys that have a foreign key, each with this key."""
        yield from super().claims(inputs, tables)
        pointing = self._rows_with_fk(inputs, inputs.values(self.left, tables))
        expected = {key: fk for key, (_, fk) in pointing.items() if fk is not None}
        rows = tables.rows(f"subscriptions__{self.name}")
        yield Claim(
            "subscriptions", expected, {row["key"]: row["fk"] for row in rows if row["fk"] is not None}, prompt=False
        )

    def _fk(self, inputs: Inputs) -> str:
        return f"{inputs.fields(self.left, 'value')}.get('fk')"

    def _rows_with_fk(self, inputs: Inputs, left: Values) -> dict[str, tuple[Any, str | None]]:
        """By left key: the row, and its foreign key as text or None."""
        found = {key: (value, evaluated(self._fk(inputs), value)) for key, value in left.items()}
        return {key: (value, None if fk is None else key_text(fk)) for key, (value, fk) in found.items()}


@SHAPES.add
@dataclass(frozen=True)
class SelectedJoin(ForeignKeyJoin):
    """A foreign-key join whose result has columns: the numbers of both rows."""

    has_fields = False
    weight = 2

    def manifest(self, inputs: Inputs) -> str:
        numbers = (inputs.fields(side, text) for side, text in ((self.left, "left"), (self.right, "right")))
        ours, theirs = (f"{fields}.get('n')" for fields in numbers)
        return (
            f"{super().manifest(inputs)}\n  select:\n    schema: ours INT, theirs INT\n    python: |\n"
            "      def row(left, right):\n"
            f"          return {{'ours': {ours}, 'theirs': None if right is None else {theirs}}}"
        )

    def values(self, tables: Tables) -> Values:
        return {row["key"]: plain({"ours": row["ours"], "theirs": row["theirs"]}) for row in tables.rows(self.name)}

    def result_claims(self, inputs: Inputs, joined: Values, tables: Tables) -> Iterator[Claim]:
        """The result only. A joined row may change while its numbers stay the same: the change feed is not checked."""
        selected = {key: self._selected(inputs, one) for key, one in joined.items()}
        yield Claim("result", texts(selected), texts(self.values(tables)), prompt=False)

    def _selected(self, inputs: Inputs, joined: Values) -> Values:
        left, right = joined["left"], joined.get("right")
        theirs = None if right is None else evaluated(inputs.fields(self.right, "value"), right).get("n")
        return dict(plain({"ours": evaluated(inputs.fields(self.left, "value"), left).get("n"), "theirs": theirs}))


@SHAPES.add
@dataclass(frozen=True)
class SameKeyJoin(TableJoin):
    """A same-key join."""

    weight = 2

    @classmethod
    def draw(cls, dice: random.Random, name: str, inputs: Inputs) -> SameKeyJoin | None:
        if len(inputs.has_fields()) < 2:
            return None
        left, right = dice.sample(inputs.has_fields(), 2)
        return cls(name, left, right, dice.choice(["inner", "left", "outer"]))

    def manifest(self, inputs: Inputs) -> str:
        return (
            f"kind: KasprJoin\nspec:\n  leftTable: {self.left}\n  rightTable: {self.right}\n  type: {self.type}\n"
            "  on: key"
        )

    def joined(self, inputs: Inputs, left: Values, right: Values) -> dict[str, Any]:
        shown = {
            "inner": left.keys() & right.keys(),
            "left": left.keys(),
            "outer": left.keys() | right.keys(),
        }[self.type]
        return {key: _pair(left.get(key), right.get(key)) for key in shown}


def _pair(left: Any, right: Any) -> dict[str, Any]:
    return {side: value for side, value in (("left", left), ("right", right)) if value is not None}


def _spelled(row: Mapping[str, Any]) -> dict[str, Any]:
    """A record or change whose ``left`` is its whole pair, as canonical text."""
    return {**row, "left": canonical(pair(row)), "right": None}


def _left_texts(pairs: naive_join.Pairs) -> dict[str, str]:
    return {key: left for key, (left, _) in pairs.items()}
