"""Joins of two tables: by a foreign key, and by the same key."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import Self

from tests.chaos.shapes.shape import Claim, Recipe, Shape, any_with_fields, evaluated, function, one_of, shape
from tests.chaos.tables import Tables, Values, canonical, key_text, pair, plain, texts
from tests.properties import naive_join


@dataclass(frozen=True)
class TableJoin(Shape):
    """A join of two tables, with a result table."""

    left: str
    right: str
    type: str

    kind = "Join"
    has_fields = True
    can_rebuild = True

    def fields(self, recipe: Recipe, value: str) -> str:
        left = recipe.fields(self.left, f"{value}['left']")
        right = recipe.fields(self.right, f"{value}['right']") if self.type == "outer" else "{}"
        return f"({left} if {value}.get('left') is not None else {right})"

    def values(self, tables: Tables) -> Values:
        return {row["key"]: pair(row) for row in tables.rows(self.name)}

    def spec(self, recipe: Recipe) -> Mapping[str, Any]:
        return {"leftTable": self.left, "rightTable": self.right, "type": self.type, **self.condition(recipe)}

    def claims(self, recipe: Recipe, tables: Tables) -> Iterator[Claim]:
        """The folded channel, the result and its folded change feed equal the expected join."""
        joined = self.joined(recipe, recipe.values(self.left, tables), recipe.values(self.right, tables))
        channel = tables.appended(f"channel__{self.name}_channel")
        records = [_spelled(record) for record in channel if record["kind"] in {"value", "tombstone"}]
        yield Claim("channel folded", texts(joined), _left_texts(naive_join.folded(records)))
        yield from self.result_claims(recipe, joined, tables)

    def result_claims(self, recipe: Recipe, joined: Values, tables: Tables) -> Iterator[Claim]:
        """The claims about the result and its change feed."""
        expected, rows = texts(joined), tables.rows(self.name)
        yield Claim("result", expected, texts(self.values(tables)), prompt=False)
        yield Claim("rows of the result", {"count": str(len(expected))}, {"count": str(len(rows))}, prompt=False)
        feed = [_spelled(row) for row in tables.feed(self.name)]
        yield Claim("feed folded", expected, _left_texts(naive_join.replayed(feed)), prompt=False)

    @abstractmethod
    def condition(self, recipe: Recipe) -> Mapping[str, Any]:
        """The fields of the manifest that say which rows are joined."""

    @abstractmethod
    def joined(self, recipe: Recipe, left: Values, right: Values) -> Values:
        """The expected join of these rows."""


@shape(
    weight=4,
    left=any_with_fields,
    right=any_with_fields,
    type=one_of("inner", "left"),
    by=one_of("column", "function"),
)
@dataclass(frozen=True)
class ForeignKeyJoin(TableJoin):
    """A foreign-key join. ``by``: a function returns the foreign key, or a column has it if the table has columns."""

    by: str

    def condition(self, recipe: Recipe) -> Mapping[str, Any]:
        if self.by == "column" and self.left in recipe.sources:
            return {"column": "fk"}
        return {"extractor": function(self._fk(recipe))}

    def joined(self, recipe: Recipe, left: Values, right: Values) -> Values:
        pairs = {
            key: _pair(value, right.get(fk or "")) for key, (value, fk) in self._rows_with_fk(recipe, left).items()
        }
        return {key: one for key, one in pairs.items() if self.type == "left" or "right" in one}

    def claims(self, recipe: Recipe, tables: Tables) -> Iterator[Claim]:
        """Also: the subscriptions are the left keys that have a foreign key, each with this key."""
        yield from super().claims(recipe, tables)
        pointing = self._rows_with_fk(recipe, recipe.values(self.left, tables))
        expected = {key: fk for key, (_, fk) in pointing.items() if fk is not None}
        rows = tables.rows(f"subscriptions__{self.name}")
        found = {row["key"]: row["fk"] for row in rows if row["fk"] is not None}
        yield Claim("subscriptions", expected, found, prompt=False)

    def _fk(self, recipe: Recipe) -> str:
        return f"{recipe.fields(self.left, 'value')}.get('fk')"

    def _rows_with_fk(self, recipe: Recipe, left: Values) -> dict[str, tuple[Any, str | None]]:
        """By left key: the row, and its foreign key as text or None."""
        found = {key: (value, evaluated(self._fk(recipe), value)) for key, value in left.items()}
        return {key: (value, None if fk is None else key_text(fk)) for key, (value, fk) in found.items()}


@shape(weight=2, **ForeignKeyJoin.draws)
class SelectedJoin(ForeignKeyJoin):
    """A foreign-key join whose result has columns: the numbers of both rows."""

    has_fields = False

    def condition(self, recipe: Recipe) -> Mapping[str, Any]:
        ours, theirs = recipe.fields(self.left, "left"), recipe.fields(self.right, "right")
        numbers = f"{{'ours': {ours}.get('n'), 'theirs': None if right is None else {theirs}.get('n')}}"
        return {
            **super().condition(recipe),
            "select": {"schema": "ours INT, theirs INT", **function(numbers, "left, right")},
        }

    def values(self, tables: Tables) -> Values:
        return {row["key"]: plain({"ours": row["ours"], "theirs": row["theirs"]}) for row in tables.rows(self.name)}

    def result_claims(self, recipe: Recipe, joined: Values, tables: Tables) -> Iterator[Claim]:
        """The result only. A joined row may change while its numbers stay the same: the change feed is not checked."""
        selected = {key: self._selected(recipe, one) for key, one in joined.items()}
        yield Claim("result", texts(selected), texts(self.values(tables)), prompt=False)

    def _selected(self, recipe: Recipe, joined: Values) -> Values:
        left, right = joined["left"], joined.get("right")
        theirs = None if right is None else evaluated(recipe.fields(self.right, "value"), right).get("n")
        return dict(plain({"ours": evaluated(recipe.fields(self.left, "value"), left).get("n"), "theirs": theirs}))


@shape(weight=2)
class SameKeyJoin(TableJoin):
    """A same-key join."""

    @classmethod
    def draw(cls, dice: random.Random, name: str, recipe: Recipe) -> Self:
        left, right = dice.sample(recipe.with_fields(), 2)
        return cls(name, left, right, dice.choice(["inner", "left", "outer"]))

    def condition(self, recipe: Recipe) -> Mapping[str, Any]:
        return {"on": "key"}

    def joined(self, recipe: Recipe, left: Values, right: Values) -> Values:
        keys = {"inner": left.keys() & right.keys(), "left": left.keys(), "outer": left.keys() | right.keys()}
        return {key: _pair(left.get(key), right.get(key)) for key in keys[self.type]}


def _pair(left: Any, right: Any) -> dict[str, Any]:
    return {side: value for side, value in (("left", left), ("right", right)) if value is not None}


def _spelled(row: Mapping[str, Any]) -> dict[str, Any]:
    """A record or change whose ``left`` is its whole pair, as canonical text."""
    return {**row, "left": canonical(pair(row)), "right": None}


def _left_texts(pairs: naive_join.Pairs) -> dict[str, str]:
    return {key: left for key, (left, _) in pairs.items()}
