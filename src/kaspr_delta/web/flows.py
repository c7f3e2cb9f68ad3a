"""The numbers at the lines of the topology: rows that went along or are read there, lag, and dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kaspr_delta.control.figures import Figures
from kaspr_delta.control.resource_status import kept_in
from kaspr_delta.engine.batch.counters import Metric
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import StreamJoinPlan, TableTableJoinPlan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.drawing.picture import Edge


@dataclass(frozen=True, slots=True)
class Flow:
    """One line. ``rows``: records and keys that went along it so far, or, with ``now``, the rows of its source.

    ``rows`` is None if they are not counted. ``lag``: how many the target has yet to read; None if unknown.
    """

    rows: int | None
    lag: int | None
    letters: int
    now: bool = False

    @property
    def above(self) -> str:
        """The text above the line: the rows, as a short number."""
        return "" if self.rows is None else brief(self.rows)

    @property
    def counted(self) -> str:
        """The rows in full, with ``now`` or ``so far``."""
        return "" if self.rows is None else f"{self.rows:,} {'now' if self.now else 'so far'}"

    @property
    def below(self) -> tuple[str, ...]:
        """The texts below the line: lag and dead letters, if there are any."""
        return (
            *([f"lag {brief(self.lag)}"] if self.lag else []),
            *([f"{brief(self.letters)} failed"] if self.letters else []),
        )

    @property
    def words(self) -> str:
        """All numbers in words, as the title of the line."""
        parts = [self.counted.replace(" ", " rows or records ", 1)] if self.counted else []
        parts += [] if self.lag is None else [f"{self.lag:,} still to be read"]
        parts += [f"{self.letters:,} dead letters"] if self.letters else []
        return ", ".join(parts)


def flows(plan: Plan, figures: Figures, edges: Iterable[Edge]) -> dict[Edge, Flow]:
    """The numbers of each line."""
    found = {}
    for edge in edges:
        now = _rows_now(plan, edge, figures)
        lags, letters = figures.lags.get(ResourceRef.of(edge.target), {}), figures.letters
        found[edge] = Flow(
            _rows_so_far(plan, edge, figures) if now is None else now,
            None if isinstance(lags, str) else lags.get(edge.source),
            0 if isinstance(letters, str) else sum(letters.get((edge.target, one), 0) for one in names_of(plan, edge)),
            now is not None,
        )
    return found


def names_of(plan: Plan, edge: Edge) -> set[str]:
    """The names by which dead letters and counters may call the source of an edge."""
    kind, _, name = edge.source.partition("/")
    join, table = plan.join(name), plan.table(name)
    names = {name}
    if kind == "join" and join is not None:
        names.add(join.channel)
    if kind == "table" and table is not None:
        names.add(table.changelog)
    target = plan.join(ResourceRef.of(edge.target).name)
    if isinstance(target, TableTableJoinPlan) and target.left == name:
        names.add(f"{target.left},{target.right}")  # these letters name both tables
    return names


def brief(number: int) -> str:
    """A number in few characters.

    >>> brief(940), brief(12_400), brief(3_000_000)
    ('940', '12.4k', '3M')
    """
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**4)):
        if number >= size:
            scale = 10**3 if unit == "k" else size
            return f"{number / scale:.1f}".removesuffix(".0") + unit
    return str(number)


def _rows_so_far(plan: Plan, edge: Edge, figures: Figures) -> int | None:
    """Reads of agents, sends and writes of agents and tasks, output of joins with streams: since their first run."""
    source, target, counted = ResourceRef.of(edge.source), ResourceRef.of(edge.target), figures.counters
    if isinstance(figures.done, str):
        return None
    if target.kind == "agent":
        received = _sum(counted, edge.target, "messages_received_per_topic", topic=names_of(plan, edge))
        return received + _sum(counted, edge.target, "table_operations", table={source.name}, operation=_READ)
    if source.kind in {"agent", "task"} and target.kind == "topic":
        return _sum(counted, edge.source, "topic_messages_sent", topic={target.name})
    if source.kind in {"agent", "task"} and target.kind == "table":
        return _sum(counted, edge.source, "table_operations", table={target.name}, operation=_WRITTEN)
    if source.kind == "join" and target.kind in {"join", "table"}:
        done = figures.done.get(edge.source)
        return 0 if done is None else int(done["rows_out"])
    return None


def _rows_now(plan: Plan, edge: Edge, figures: Figures) -> int | None:
    """The rows of the source of a join or a made table; None if it keeps no rows or they were not counted."""
    source = ResourceRef.of(edge.source)
    if ResourceRef.of(edge.target).kind not in {"join", "table"}:
        return None
    if isinstance(plan.running(source), StreamJoinPlan):
        return None  # it only emits
    rows = figures.rows(kept_in(plan, source))
    return None if isinstance(rows, str) else rows


_READ = {"keys_retrieved"}
_WRITTEN = {"keys_updated", "keys_deleted"}


def _sum(counted: Mapping[str, list[Metric]], resource: str, metric: str, **wanted: set[str]) -> int:
    return sum(
        one.value
        for one in counted.get(resource, ())
        if one.name == metric and all(one.labels.get(label) in names for label, names in wanted.items())
    )
