"""KasprTable: keyed state that agents read and write, or that is made from a stream or another table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from kaspr_delta.spec.aggregation import Aggregate, Count, ToTable, making_problems
from kaspr_delta.spec.base import Boolean, PositiveInteger, Problem, Spec, TextMap
from kaspr_delta.spec.code import Code
from kaspr_delta.spec.durations import Duration, PositiveDuration, milliseconds
from kaspr_delta.spec.resource import Resource, ResourceSpec
from kaspr_delta.spec.serializers import TableSerializer
from kaspr_delta.spec.streams import Origin
from kaspr_delta.spec.topic_configs import config_problems


class TumblingWindow(Spec):
    """Windows of one size, one after another. ``expires`` says how long their rows are kept."""

    size: PositiveDuration = Field(description="the length of a window, such as '1m'")
    expires: Duration | None = None


class HoppingWindow(Spec):
    """Windows of one size that begin every ``step`` and so may overlap."""

    size: PositiveDuration = Field(description="the length of a window, such as '5m'")
    step: PositiveDuration = Field(description="how often a new window begins, such as '1m'")
    expires: Duration | None = None

    def problems(self) -> Iterator[Problem]:
        """A step longer than the window would leave events that belong to none."""
        if milliseconds(self.step) > milliseconds(self.size):
            yield Problem(
                f"step {self.step} is longer than size {self.size}", "events in between would have no window", ("step",)
            )


def _lower_case(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


class Window(Spec):
    """How the rows of a table are split by time; ``relativeTo`` tells by whose clock."""

    tumbling: TumblingWindow | None = None
    hopping: HoppingWindow | None = None
    relative_to: Annotated[Literal["stream", "now", "custom"], BeforeValidator(_lower_case)] = "stream"
    relative_to_selector: Code | None = None
    grace: Duration = "0s"
    emit: Literal["update", "close"] = "update"

    def problems(self) -> Iterator[Problem]:
        """Exactly one kind of window; a selector just where it is asked."""
        if self.tumbling and self.hopping:
            yield Problem("a table has tumbling or hopping windows, not both", "remove one of the two", ("hopping",))
        if not self.tumbling and not self.hopping:
            yield Problem("a window needs 'tumbling' or 'hopping'", "for example `tumbling: {size: 1m, expires: 1h}`")
        for kind, of in (("tumbling", self.tumbling), ("hopping", self.hopping)):
            if of and of.expires is not None and milliseconds(of.expires) < milliseconds(self.grace):
                message = f"rows expire {of.expires} after their window's end, before it closes {self.grace} after it"
                yield Problem(message, "let 'expires' be at least as long as 'grace'", (kind, "expires"))
        if self.relative_to == "custom" and not self.relative_to_selector:
            hint = "add a function of the value that returns a timestamp"
            yield Problem("'relativeTo: custom' needs a 'relativeToSelector'", hint, ("relativeTo",))
        if self.relative_to != "custom" and self.relative_to_selector:
            hint = "set `relativeTo: custom` or remove the selector"
            at = ("relativeToSelector",)
            yield Problem(f"'relativeToSelector' has no meaning with relativeTo '{self.relative_to}'", hint, at)


class TableSpec(ResourceSpec):
    """The fields of a table. ``from`` and what follows it are of tables that are made from something."""

    is_global: Boolean = Field(default=False, alias="global")
    default_selector: Code | None = None
    key_serializer: TableSerializer = "json"
    value_serializer: TableSerializer = "json"
    partitions: PositiveInteger | None = None
    extra_topic_configs: TextMap = Field(default_factory=dict)
    options: TextMap = Field(default_factory=dict)
    window: Window | None = None
    from_: Origin | None = Field(default=None, alias="from")
    group_by: Code | None = None
    to_table: ToTable | None = None
    count: Count | None = None
    reduce: Code | None = None
    aggregate: Aggregate | None = None

    @classmethod
    def combination_problems(cls, written: Mapping[str, Any]) -> Iterator[Problem]:
        """One way in which a table is made, if it is."""
        yield from making_problems(written)

    def problems(self) -> Iterator[Problem]:
        """Settings of the changelog that mean something are well formed."""
        for problem in config_problems(self.extra_topic_configs):
            yield replace(problem, at=("extraTopicConfigs", *problem.at))


class KasprTable(Resource):
    """A table manifest."""

    kind: Literal["KasprTable"]
    spec: TableSpec = TableSpec()
