"""``produce`` and ``consume``: records as JSON lines."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kaspr_delta.cli.completion import complete_readable, complete_topic
from kaspr_delta.cli.progress import note, print_lines
from kaspr_delta.cli.target import Target
from kaspr_delta.errors import NotFoundError, SerializationError, UsageError
from kaspr_delta.serde.files.read import objects_of
from kaspr_delta.serde.json_text import parse

if TYPE_CHECKING:
    from kaspr_delta.api.topic import ChangelogHandle, ChannelHandle, TopicHandle
    from kaspr_delta.application import Application

# Seconds between two looks at a topic that is followed.
_PAUSE = 0.5


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
    if not records:
        raise UsageError(f"{'standard input' if file == '-' else file} has no records")
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
    tail: Annotated[int | None, typer.Option("--tail", min=0, help="The last so many records.")] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Only the records of a key, as for `table NAME get`.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Only records since a time, such as 2024-05-01T12:00Z.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with the records that come, until Ctrl-C.")] = False,
) -> None:
    """Print the records of a topic or channel as JSON lines, in order, from the start.

    The channel of a join has what it emits: its value has left and right, either of which may be null.

    For example:

        kaspr-delta consume enriched-orders --max 3
        kaspr-delta consume orders-products-joined --key O1 --tail 1
        kaspr-delta consume enriched-orders --tail 0 --follow
    """
    from kaspr_delta.api.records import ANY_KEY

    wanted = {
        "key": ANY_KEY if key is None else key_of(key, raw=False),
        "since": None if since is None else time_of(since),
    }
    handle = _readable(target.open(), name)
    end, left = handle.end if follow else -1, most
    records = handle.records(most, tail=tail, **wanted)
    while True:
        print_lines(records)
        end = max([end, *(record["offset"] for record in records[-1:])])
        left = None if left is None else left - len(records)
        if not follow or left == 0:
            return
        time.sleep(_PAUSE)
        records = handle.records(left, after=end, **wanted)


def _readable(application: Application, name: str) -> TopicHandle | ChangelogHandle | ChannelHandle:
    """The topic or channel of a name. Raises NotFoundError."""
    channels = [join.channel for join in application.plan.joins]
    if name in channels and application.plan.topic(name) is None:
        return application.channel(name)
    try:
        return application.topic(name)
    except NotFoundError:
        topics = [topic.name for topic in application.plan.topics]
        raise NotFoundError.among("topic or channel", name, [*topics, *channels]) from None


def time_of(text: str) -> datetime:
    """A time as somebody writes it, by default in UTC. Raises UsageError.

    >>> time_of("2024-05-01").isoformat()
    '2024-05-01T00:00:00+00:00'
    """
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))  # Python reads Z only since 3.11
    except ValueError:
        raise UsageError(f"{text!r} is no time: write it as 2024-05-01T12:00:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)


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


def key_of(text: str, *, raw: bool) -> Any:
    """The key that a command's argument stands for.

    >>> key_of("O1", raw=False), key_of("1", raw=False), key_of("1", raw=True)
    ('O1', 1, '1')
    """
    try:
        return text if raw else parse(text)
    except SerializationError:
        return text
