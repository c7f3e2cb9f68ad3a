"""Tables made from tables: counts and sums of groups."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.chaos.shapes.shape import SHAPES, Claim, Inputs, Shape, evaluated
from tests.chaos.tables import Tables, Values, canonical, key_text, plain, texts
from tests.properties import naive_join


@dataclass(frozen=True)
class Aggregate(Shape):
    """A table with a number for each group of another table's rows."""

    origin: str

    can_rebuild = True
    is_plain_table = True

    @property
    def reads(self) -> Sequence[str]:
        return [self.origin]

    @property
    def ref(self) -> str:
        return f"table/{self.name}"

    @classmethod
    def draw(cls, dice: random.Random, name: str, inputs: Inputs) -> Aggregate:
        return cls(name, dice.choice(inputs.has_fields()))

    def manifest(self, inputs: Inputs) -> str:
        kind = "table" if self.origin in inputs.sources else inputs.shapes[self.origin].ref.partition("/")[0]
        return (
            f"kind: KasprTable\nspec:\n  name: {self.name}\n  from: {{{kind}: {self.origin}}}\n"
            f"  groupBy:\n    python: |\n      def group(value):\n          return {self._group(inputs)}\n"
            f"{self.operation(inputs.fields(self.origin, 'value'))}"
        )

    def values(self, tables: Tables) -> Values:
        return tables.made(self.name)

    def claims(self, inputs: Inputs, tables: Tables) -> Iterator[Claim]:
        """Totals and folded change feed. Totals of 0 are not compared: a group without rows keeps the total 0."""
        expected: Counter[str] = Counter()
        for value in inputs.values(self.origin, tables).values():
            group = evaluated(self._group(inputs), value)
            if group is not None:
                expected[key_text(group)] += self.amount(evaluated(inputs.fields(self.origin, "value"), value))
        wanted = {group: str(total) for group, total in expected.items() if total}
        found = texts(tables.made(self.name))
        yield Claim("groups", wanted, _some(found))
        feed = [{**row, "left": canonical(plain(row["value"])), "right": None} for row in tables.feed(self.name)]
        folded = {key: left for key, (left, _) in naive_join.replayed(feed).items()}
        yield Claim("feed of a made table", found, folded)

    @abstractmethod
    def operation(self, fields: str) -> str:
        """The YAML of the aggregation."""

    @abstractmethod
    def amount(self, fields: Values) -> int:
        """The amount that a row adds to its group."""

    def _group(self, inputs: Inputs) -> str:
        return f"{inputs.fields(self.origin, 'value')}.get('g')"


@SHAPES.add
@dataclass(frozen=True)
class Count(Aggregate):
    """The number of rows of each group."""

    def operation(self, fields: str) -> str:
        return "  count: {}"

    def amount(self, fields: Values) -> int:
        return 1


@SHAPES.add
@dataclass(frozen=True)
class Sum(Aggregate):
    """The sum of ``n`` over the rows of each group."""

    def operation(self, fields: str) -> str:
        return (
            "  aggregate:\n"
            '    initializer: {python: "def nothing(): return 0"}\n'
            f"    adder:\n      python: |\n        def add(total, value):\n            return total + {fields}['n']\n"
            f"    subtractor:\n      python: |\n        def subtract(total, value):\n"
            f"            return total - {fields}['n']"
        )

    def amount(self, fields: Values) -> int:
        amount: int = fields["n"]
        return amount


def _some(found: dict[str, str]) -> dict[str, str]:
    return {group: total for group, total in found.items() if total != "0"}
