"""Steps that put records on topics, and a step that compares a web view with its table."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.chaos.shapes.streams import JoinAtArrival, paired
from tests.chaos.shapes.views import PostingView, ReadingView
from tests.chaos.steps.step import STEPS, Step
from tests.chaos.tables import Tables, key_text, notes_of, texts
from tests.chaos.topics import (
    FROM_FILES,
    POSTED,
    DrawnRecord,
    Record,
    api_record,
    draw_records,
    input_folder,
    topic_records,
)
from tests.chaos.wrong import WrongError

if TYPE_CHECKING:
    from typing_extensions import Self

    from tests.chaos.recipe import Recipe
    from tests.chaos.world import World

# Seconds in which a view has to show the committed rows, and seconds between two requests.
_PATIENCE = 20.0
_POLL_SECONDS = 0.2


@STEPS.add
@dataclass(frozen=True)
class Produce(Step):
    """Records are put on a topic in one commit."""

    topic: str
    records: list[DrawnRecord]

    weight = 10

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self | None:
        topics = [topic for topic in recipe.topics if topic != FROM_FILES]
        return cls(dice.choice(topics), draw_records(dice)) if topics else None

    def do(self, world: World) -> str | None:
        if self.topic not in world.recipe.topics:
            return "no such topic"
        records = [api_record(record, world.recipe.keys) for record in self.records]
        note(world, self.topic, records)
        world.app.topic(self.topic).produce(records)
        return None


@STEPS.add
@dataclass(frozen=True)
class DropFile(Step):
    """A file of lines appears in the folder that a topic reads."""

    records: list[DrawnRecord]

    weight = 6

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self | None:
        return cls(draw_records(dice)) if FROM_FILES in recipe.topics else None

    def do(self, world: World) -> None:
        values = [api_record(record, world.recipe.keys) for record in self.records]
        lines = [json.dumps({**record["value"], "key": record["key"]}) for record in values]
        folder = input_folder(world.warehouse)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{self.records[0]['id']}.json"
        (folder / f"_{name}").write_text("".join(f"{line}\n" for line in lines))
        (folder / f"_{name}").rename(folder / name)  # so that the file appears complete


@STEPS.add
@dataclass(frozen=True)
class Post(Step):
    """Records are sent to a web view, which puts them on a topic before it answers."""

    view: str
    records: list[DrawnRecord]

    weight = 4

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self | None:
        views = [shape.name for shape in recipe.shapes if isinstance(shape, PostingView)]
        return cls(dice.choice(views), draw_records(dice)) if views else None

    def do(self, world: World) -> str | None:
        if self.view not in world.recipe.inputs.shapes:
            return "no such view"
        records = [api_record(record, world.recipe.keys) for record in self.records]
        note(world, POSTED, records)
        sent = [{"key": record["key"], "value": record["value"]} for record in records]
        answer = world.client().post(f"/{self.view}", json=sent)
        on_topic = {record.value["id"] for record in topic_records(Tables(world.warehouse, world), POSTED)}
        missing = {record["value"]["id"] for record in records} - on_topic
        if not answer.is_success or missing:
            raise WrongError(f"{answer.status_code}: {answer.text}; not on the topic: {missing}")
        return None


@STEPS.add
@dataclass(frozen=True)
class GetRows(Step):
    """Requests a web view of a table until it shows exactly the committed rows; fails if that takes too long."""

    view: str

    weight = 4

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self | None:
        views = [shape.name for shape in recipe.shapes if isinstance(shape, ReadingView)]
        return cls(dice.choice(views)) if views else None

    def do(self, world: World) -> str | None:
        shape = world.recipe.inputs.shapes.get(self.view)
        if not isinstance(shape, ReadingView):
            return "no such view"
        source = world.recipe.source(shape.table)
        if source is not None and world.has_feature(source, "typeWidening"):
            return "it is served without Spark, which alone reads a table with this feature"
        deadline = time.monotonic() + _PATIENCE
        while True:
            expected = texts(world.recipe.inputs.values(shape.table, Tables(world.warehouse, world)))
            answer = world.client().get(f"/{self.view}")
            shown = texts(shape.shown(world.recipe.inputs, answer.json())) if answer.is_success else {}
            if answer.is_success and shown == expected:
                return None
            if time.monotonic() > deadline:
                raise WrongError(f"{answer.status_code}: {answer.text} instead of {expected}")
            time.sleep(_POLL_SECONDS)


def note(world: World, topic: str, records: list[dict[str, Any]]) -> None:
    """Note the pairs that joins must emit for these records, which the caller will produce next.

    During a continuous run the note is not ``sure``: a row written earlier may be in the record's batch or in another.
    """
    tables = Tables(world.warehouse, world)
    for shape in world.recipe.shapes:
        if isinstance(shape, JoinAtArrival) and shape.topic == topic:
            rows = tables.live(world.recipe.inputs.sources[shape.right])
            with notes_of(world.warehouse, shape.name).open("a") as notes:
                for record in records:
                    key = None if record["key"] is None else key_text(record["key"])
                    joined_rows = shape.joined_rows(Record(key, record["value"], 0), rows)
                    pairs = [paired(record["value"], row) for row in joined_rows]
                    notes.write(
                        json.dumps({"id": record["value"]["id"], "pairs": pairs, "sure": not world.runs_continuously})
                    )
                    notes.write("\n")
