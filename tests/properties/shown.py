"""Result, subscriptions and channel of a foreign-key join, as dictionaries to compare with a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Row

from kaspr_delta import Application
from kaspr_delta.plan.definition.joins import ForeignKeyJoinPlan
from tests.properties.naive_join import Pairs, Sides, Texts, folded

MANIFESTS = Path(__file__).parents[1] / "spark" / "applications" / "inner-and-left.yaml"
"""Two tables, and an inner and a left join over them, which have the names of their types."""
TABLES = {"left": "orders", "right": "products"}
JOINS = ("inner", "left")


@dataclass(frozen=True, slots=True)
class JoinReader:
    """A foreign-key join of an application."""

    app: Application
    join: str

    @property
    def plan(self) -> ForeignKeyJoinPlan:
        """The plan of the join."""
        plan = self.app.plan.join(self.join)
        assert isinstance(plan, ForeignKeyJoinPlan)
        return plan

    def result(self) -> Pairs:
        """The rows of the result table. Asserts that each key has one row."""
        rows = self.app.delta.read(self.app.spark, self.plan.result).collect()
        found = {row["key"]: (row["left"], row["right"]) for row in rows}
        assert len(found) == len(rows), self.join
        return found

    def subscribed_foreign_keys(self) -> Texts:
        """The foreign keys in the join's subscriptions, by left key."""
        rows = self.app.delta.read(self.app.spark, self.plan.subscriptions).where("fk IS NOT NULL").collect()
        return {row["key"]: row["fk"] for row in rows}

    def folded_channel(self) -> Pairs:
        """The state that the channel adds up to. Asserts that every record changes it."""
        return folded(self.app.channel(self.plan.channel).stored.orderBy("offset").collect())

    def feed(self) -> list[Row]:
        """All changes of the result table."""
        return self.app.delta.changes(self.app.spark, self.plan.result).collect()

    def sides(self) -> Sides:
        """The rows of both tables."""
        rows = (self.app.delta.read(self.app.spark, TABLES[side]).select("key", "value") for side in ("left", "right"))
        return Sides(*(dict(map(tuple, table.collect())) for table in rows))

    def differing(self) -> int:
        """The number of rows in which the result, or the folded channel, differs from the join of the tables."""
        expected = self.sides().joined(self.join).items()
        return sum(len(expected ^ pairs.items()) for pairs in (self.result(), self.folded_channel()))

    def assert_joins(self, sides: Sides) -> None:
        """Assert that result, channel and subscriptions match the rows of both tables."""
        assert self.result() == sides.joined(self.join) == self.folded_channel(), self.join
        assert self.subscribed_foreign_keys() == sides.foreign_keys(), self.join
