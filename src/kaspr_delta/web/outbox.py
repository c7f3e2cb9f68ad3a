"""Sends the records of web views: they are on their topics before the answer is given."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field

import pyarrow as pa

from kaspr_delta.engine.streams.effect import RECORD, SCHEMA, Effect, to_arrow
from kaspr_delta.engine.streams.output import Topics
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.names import topic_table
from kaspr_delta.storage.layout import TOPICS
from kaspr_delta.storage.system_tables import known_topics
from kaspr_delta.web.store import WebStore


@dataclass
class _Postbox:
    """One topic. Records that arrive during a commit are in the next commit."""

    # The records of each request, and the outcome of their commit.
    waiting: list[tuple[list[Effect], Future[None]]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    committing: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class Outbox:
    """The topics that web views of an application send to."""

    store: WebStore
    plan: Plan
    count: Callable[[str, int], None] = lambda topic, records: None  # noqa: ARG005
    _boxes: defaultdict[str, _Postbox] = field(default_factory=lambda: defaultdict(_Postbox), init=False)
    _known: set[str] = field(default_factory=set, init=False)
    _topics: Topics | None = field(default=None, init=False)

    def topics(self) -> Topics:
        """The topics of the plan, and those of which the system table has the name."""
        if self._topics is None:
            self._known = known_topics(self.store.system)
            self._topics = Topics.of(self.plan, self._known)
        return self._topics

    def send(self, effects: Iterable[Effect]) -> None:
        """Put records on their topics, in their order. Each topic has a commit of its own."""
        by_topic: dict[str, list[Effect]] = {}
        for effect in effects:
            by_topic.setdefault(effect.target, []).append(effect)
        for topic, records in by_topic.items():
            self._send(topic, records)

    def _send(self, topic: str, records: list[Effect]) -> None:
        box, outcome = self._boxes[topic], Future[None]()
        with box.lock:
            box.waiting.append((records, outcome))
        with box.committing:
            if not outcome.done():
                with box.lock:
                    waiting, box.waiting = box.waiting, []
                self._commit(topic, waiting)
        outcome.result()

    def _commit(self, topic: str, waiting: list[tuple[list[Effect], Future[None]]]) -> None:
        try:
            self._write_down(topic)
            rows = pa.Table.from_batches([to_arrow(effect for records, _ in waiting for effect in records)], SCHEMA)
            self.store.append(topic_table(topic), rows.select(list(RECORD)))
            self.count(topic, rows.num_rows)
        except Exception as error:  # noqa: BLE001  raised in each request that waits for it
            for _, outcome in waiting:
                outcome.set_exception(error)
        else:
            for _, outcome in waiting:
                outcome.set_result(None)

    def _write_down(self, topic: str) -> None:
        """Record the name of a topic that only a function named, if it is new: a Delta name does not determine it.

        This comes before the topic is made: a kill in between must not leave a topic without a known name.
        """
        if self.plan.topic(topic) is None and topic not in self._known:
            if not self.store.has(topic_table(topic)):
                self.store.system.append(TOPICS, [(topic,)])
            self._known.add(topic)
            self._topics = None
