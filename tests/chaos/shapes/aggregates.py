"""Tables made from tables: counts and sums of groups."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.chaos.shapes.shape import Claim, Recipe, Shape, any_with_fields, evaluated, function, shape
from tests.chaos.tables import Tables, Values, canonical, key_text, plain, texts
from tests.properties import naive_join


@dataclass(frozen=True)
class Aggregate(Shape):
    """A table with a number for each group of another table's rows."""

    origin: str

    kind = "Table"
    can_rebuild = True
    is_plain_table = True

    def spec(self, recipe: Recipe) -> Mapping[str, Any]:
        kind = "table" if self.origin in recipe.sources else recipe.shapes[self.origin].kind.lower()
        operation = self.operation(recipe.fields(self.origin, "value"))
        return {"from": {kind: self.origin}, "groupBy": function(self._group(recipe)), **operation}

    def claims(self, recipe: Recipe, tables: Tables) -> Iterator[Claim]:
        """Totals and folded change feed. Totals of 0 are not compared: a group without rows keeps the total 0."""
        expected: Counter[str] = Counter()
        for value in recipe.values(self.origin, tables).values():
            group = evaluated(self._group(recipe), value)
            if group is not None:
                expected[key_text(group)] += self.amount(evaluated(recipe.fields(self.origin, "value"), value))
        found = texts(self.values(tables))
        wanted = {group: str(total) for group, total in expected.items() if total}
        yield Claim("groups", wanted, {group: total for group, total in found.items() if total != "0"})
        feed = [{**row, "left": canonical(plain(row["value"])), "right": None} for row in tables.feed(self.name)]
        folded = {key: left for key, (left, _) in naive_join.replayed(feed).items()}
        yield Claim("feed of a made table", found, folded)

    @abstractmethod
    def operation(self, fields: str) -> Mapping[str, Any]:
        """The aggregation in the manifest."""

    @abstractmethod
    def amount(self, fields: Values) -> int:
        """The amount that a row adds to its group."""

    def _group(self, recipe: Recipe) -> str:
        return f"{recipe.fields(self.origin, 'value')}.get('g')"


@shape(origin=any_with_fields)
class Count(Aggregate):
    """The number of rows of each group."""

    def operation(self, fields: str) -> Mapping[str, Any]:
        return {"count": {}}

    def amount(self, fields: Values) -> int:
        return 1


@shape(origin=any_with_fields)
class Sum(Aggregate):
    """The sum of ``n`` over the rows of each group."""

    def operation(self, fields: str) -> Mapping[str, Any]:
        add, subtract = (function(f"total {sign} {fields}['n']", "total, value") for sign in "+-")
        return {"aggregate": {"initializer": function("0", ""), "adder": add, "subtractor": subtract}}

    def amount(self, fields: Values) -> int:
        return int(fields["n"])
