"""``produce`` and ``consume``: records as JSON lines."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from kaspr_delta.cli.completion import complete_readable, complete_topic
from kaspr_delta.cli.progress import note
from kaspr_delta.cli.target import Target
from kaspr_delta.errors import NotFoundError, UsageError
from kaspr_delta.serde.json_lines import json_line, objects_of


def produce(
    target: Target,
    topic: Annotated[str, typer.Argument(help="The topic.", autocompletion=complete_topic)],
    file: Annotated[str, typer.Argument(metavar="[FILE|-]", help="JSON lines; - is standard input.")] = "-",
) -> None:
    """Put records on a topic: JSON lines with key, value and, if wanted, timestamp (ms), headers and partition.

    All records are read before any is written. A value of null is a tombstone.

    For example:

        echo '{"key": "O1", "value": {"product_id": "P100"}}' | kaspr-delta produce raw-orders
        kaspr-delta produce raw-orders orders.jsonl
    """
    records = list(read_lines(file))
    handle = target.open().topic(topic)
    note(f"{handle.produce(records)} records on {topic}")


def consume(
    target: Target,
    name: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC-OR-CHANNEL", help="A topic, or the channel of a join.", autocompletion=complete_readable
        ),
    ],
    most: Annotated[int | None, typer.Option("--max", min=0, help="At most so many records.")] = None,
) -> None:
    """Print the records of a topic or channel as JSON lines, in order, from the start.

    The channel of a join has what it emits: its value has left and right, either of which may be null.

    For example:

        kaspr-delta consume enriched-orders --max 3
        kaspr-delta consume orders-products-joined
    """
    application = target.open()
    channels = [join.channel for join in application.plan.joins]
    if name in channels and application.plan.topic(name) is None:
        records = application.channel(name).records(most)
    else:
        try:
            records = application.topic(name).records(most)
        except NotFoundError:
            topics = [topic.name for topic in application.plan.topics]
            raise NotFoundError.among("topic or channel", name, [*topics, *channels]) from None
    for record in records:
        typer.echo(json_line(record))


def read_lines(file: str) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines. Raises UsageError with the line's number."""
    if file == "-":
        yield from objects_of(io.BytesIO(sys.stdin.buffer.read()), "standard input")
        return
    try:
        with Path(file).open("rb") as data:
            yield from objects_of(data, file)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error}") from error
