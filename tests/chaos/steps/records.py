"""Steps that put records on topics, and a step that compares a web view with its table."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.chaos.shapes.shape import any_shape
from tests.chaos.shapes.streams import JoinAtArrival, paired
from tests.chaos.shapes.views import PostingView, ReadingView
from tests.chaos.steps.step import action
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
from tests.chaos.world import World, WrongError

# Seconds in which a view has to show the committed rows, and seconds between two requests.
_PATIENCE = 20.0
_POLL_SECONDS = 0.2


@action(
    weight=10,
    topic=lambda dice, recipe: dice.choice([topic for topic in recipe.topics if topic != FROM_FILES]),
    records=draw_records,
)
def produce(world: World, topic: str, records: list[DrawnRecord]) -> str | None:
    """Records are put on a topic in one commit."""
    if topic not in world.recipe.topics:
        return "no such topic"
    produced = [api_record(record, world.recipe.keys) for record in records]
    _note(world, topic, produced)
    world.app.topic(topic).produce(produced)
    return None


@action(
    weight=6,
    topic=lambda dice, recipe: dice.choice([topic for topic in recipe.topics if topic == FROM_FILES]),
    records=draw_records,
)
def drop_file(world: World, topic: str, records: list[DrawnRecord]) -> None:  # noqa: ARG001
    """A file of lines appears in the folder that a topic reads."""
    values = [api_record(record, world.recipe.keys) for record in records]
    lines = [json.dumps({**record["value"], "key": record["key"]}) for record in values]
    folder = input_folder(world.warehouse)
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{records[0]['id']}.json"
    (folder / f"_{name}").write_text("".join(f"{line}\n" for line in lines))
    (folder / f"_{name}").rename(folder / name)  # so that the file appears complete


@action(weight=4, shape=any_shape(lambda one: isinstance(one, PostingView)), records=draw_records)
def post(world: World, shape: PostingView, records: list[DrawnRecord]) -> None:
    """Records are sent to a web view, which puts them on a topic before it answers."""
    produced = [api_record(record, world.recipe.keys) for record in records]
    _note(world, POSTED, produced)
    sent = [{"key": record["key"], "value": record["value"]} for record in produced]
    answer = world.client().post(f"/{shape.name}", json=sent)
    on_topic = {record.value["id"] for record in topic_records(Tables(world.warehouse, world.rows), POSTED)}
    missing = {record["id"] for record in records} - on_topic
    if not answer.is_success or missing:
        raise WrongError(f"{answer.status_code}: {answer.text}; not on the topic: {missing}")


@action(weight=4, shape=any_shape(lambda one: isinstance(one, ReadingView)))
def get_rows(world: World, shape: ReadingView) -> str | None:
    """A web view of a table is requested until it shows exactly the committed rows; fails if that takes too long."""
    source = world.recipe.sources.get(shape.table)
    if source is not None and world.has_feature(source, "typeWidening"):
        return "it is served without Spark, which alone reads a table with this feature"
    deadline = time.monotonic() + _PATIENCE
    while True:
        expected = texts(world.recipe.values(shape.table, Tables(world.warehouse, world.rows)))
        answer = world.client().get(f"/{shape.name}")
        if answer.is_success and texts(shape.shown(world.recipe, answer.json())) == expected:
            return None
        if time.monotonic() > deadline:
            raise WrongError(f"{answer.status_code}: {answer.text} instead of {expected}")
        time.sleep(_POLL_SECONDS)


def _note(world: World, topic: str, records: list[dict[str, Any]]) -> None:
    """Note the pairs that joins must emit for these records, which the caller will produce next.

    During a continuous run the note is not ``sure``: a row written earlier may be in the record's batch or in another.
    """
    tables, sure = Tables(world.warehouse, world.rows), not world.runs_continuously()
    for shape in world.recipe.shapes.values():
        if isinstance(shape, JoinAtArrival) and shape.topic == topic:
            rows = tables.live(world.recipe.sources[shape.right])
            with notes_of(world.warehouse, shape.name).open("a") as notes:
                for record in records:
                    key, value = None if record["key"] is None else key_text(record["key"]), record["value"]
                    pairs = [paired(value, row) for row in shape.joined_rows(Record(key, value, 0), rows)]
                    notes.write(f"{json.dumps({'id': value['id'], 'pairs': pairs, 'sure': sure})}\n")
