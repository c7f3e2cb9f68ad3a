"""The page of one topic: its records, its binding, and the resources that it connects."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import TopicPlan
from kaspr_delta.storage.native.readable import readable
from kaspr_delta.web.page_source import PageSource
from kaspr_delta.web.picture import edges_of
from kaspr_delta.web.resource_page import batches_of

# Records on a page.
_RECORDS = 20


@dataclass(frozen=True, slots=True)
class TopicPage:
    """The values for the template of a topic."""

    source: PageSource
    plan: Plan

    def of(self, topic: TopicPlan) -> dict[str, Any]:
        """The values for a topic of the plan."""
        table, ref, label = topic.delta_name, topic.ref, str(topic.ref)
        with ThreadPoolExecutor() as at_once:
            counting = at_once.submit(self.source.figures, self.plan, {table}, {ref})
            reading = at_once.submit(
                readable, f"'{table}'", lambda: self.source.tables.newest(table, ("timestamp", "seq"), _RECORDS)
            )
            batches = batches_of(self.source, ref)
        figures, edges = counting.result(), edges_of(self.plan)
        return {
            "title": label,
            "topic": topic,
            "rows": figures.rows(table),
            "lag": figures.lag(ref),
            "letters": figures.letters_of(label),
            "feeders": sorted({edge.source for edge in edges if edge.target == label}),
            "readers": sorted({edge.target for edge in edges if edge.source == label}),
            "newest": reading.result(),
            "batches": batches,
        }
