"""Fixtures: what is put into an application, what changes then, and what comes out; files named ``*.test.yaml``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from kaspr_delta.spec.base import Integer, NaturalNumber, Problem, Spec, Text, optional

ANY = "<any>"
"""The text that stands for any value in an expectation."""


class Row(Spec):
    """A row that is put into a table."""

    key: Any = optional("the row's key, any JSON")
    value: Any = optional("the row's value, any JSON; without one the row is deleted")
    file: Text | None = optional("instead of a row: the path of a file of rows, relative to the fixture")

    def problems(self) -> Iterator[Problem]:
        written = self.model_fields_set
        if self.file is not None and len(written) > 1:
            (other, *_) = sorted(written - {"file"})
            yield Problem("'file' stands alone: its rows have keys and values", f"remove '{other}'", ("file",))
        elif not written:
            yield Problem("this has neither a key, nor a value, nor a file", "write {key: …, value: …}")


class Record(Row):
    """A record that is put on a topic."""

    timestamp: Integer | None = optional("the record's time in milliseconds since 1970; without it: now")
    headers: dict[str, Text] | None = optional("the record's headers, by name")
    partition: NaturalNumber | None = optional("the record's partition; without it: that of its key")


class Changes(Spec):
    """Rows and records that are put into an application, which then runs until it is quiet."""

    tables: dict[str, tuple[Row, ...]] = Field(default={}, description="rows, by table")
    topics: dict[str, tuple[Record, ...]] = Field(default={}, description="records in order, by topic")
    tasks: tuple[Text, ...] = Field(default=(), description="tasks that run once, after all that")


class Expected(Spec):
    """A row or record that has to be there. Fields that are not written are not compared."""

    key: Any = optional("its key; <any> for any")
    value: Any = optional("its value, in which <any> stands for any value; without one: a tombstone")
    timestamp: Integer | None = optional("the record's time in milliseconds since 1970")
    headers: dict[str, Text] | None = optional("the record's headers, by name")
    window_start: Text | None = optional("the beginning of the row's window, as 2026-01-31T10:00:00Z")


class Letter(Spec):
    """A dead letter that has to be there. Fields that are not written are not compared."""

    resource: Text | None = optional("the resource that could not process it, as kind/name")
    source: Text | None = optional("the topic, channel or table that it came from")
    key: Any = optional("its key; <any> for any")
    reason: Text | None = optional("the reason in short, as dead-letters shows it")


class Outcome(Spec):
    """The rows, records and dead letters that have to come out."""

    tables: dict[str, tuple[Expected, ...]] = Field(default={}, description="all rows, by table")
    joins: dict[str, tuple[Expected, ...]] = Field(
        default={}, description="all rows of the result, by join; of a join with a stream the new records"
    )
    topics: dict[str, tuple[Expected, ...]] = Field(
        default={}, description="the new records, by topic: those since 'when', if there is one; in order for each key"
    )
    dead_letters: tuple[Letter, ...] = Field(default=(), description="all dead letters; none if it is not written")


class Fixture(Spec):
    """One test of an application."""

    test: Text = Field(description="the rule that is tested, as a sentence")
    given: Changes = Field(default=Changes(), description="what is there before")
    when: Changes | None = optional("what changes then")
    then: Outcome = Field(description="what has to come out")
