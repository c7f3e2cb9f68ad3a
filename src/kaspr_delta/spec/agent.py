"""KasprAgent: a pipeline over a topic or over the channel of a join."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from kaspr_delta.spec.base import Boolean, PositiveInteger, Problem, Spec, Text, exactly_one, optional
from kaspr_delta.spec.durations import PositiveDuration
from kaspr_delta.spec.processors import Processors
from kaspr_delta.spec.resource import Resource, ResourceSpec
from kaspr_delta.spec.topics import InputTopic, OutputTopic


class InputChannel(Spec):
    """The channel of a join. With ``tombstones`` the agent also hears of keys that have no result any more."""

    name: Text = Field(description="the outputChannel of a KasprJoin")
    tombstones: Boolean = Field(default=False, description="give None for keys that have no result any more")


class Take(Spec):
    """Several events at once: at most ``max``, or what came ``within`` a time."""

    max: PositiveInteger = Field(description="how many events at most")
    within: PositiveDuration = Field(description="how long to wait for them, such as '5s'")


class Input(Spec):
    """The input of an agent, and the position at which a new agent begins."""

    topic: InputTopic | None = optional("the topics to read")
    channel: InputChannel | None = optional("the channel of a join to read")
    start: Literal["earliest", "latest"] = Field(default="earliest", description="where a new agent begins to read")
    declare: Boolean | None = None
    take: Take | None = optional("several events at once, as a list")

    @classmethod
    def combination_problems(cls, written: Mapping[str, Any]) -> Iterator[Problem]:
        hint = "`topic: {name: …}` for a topic, `channel: {name: …}` for the channel of a join"
        yield from exactly_one(written, ("topic", "channel"), "the input of an agent", hint)


class Output(Spec):
    """Where the results of the pipeline go. Without topics they are dropped."""

    topics: tuple[OutputTopic, ...] = Field(default=(), description="each receives every result")


class AgentSpec(ResourceSpec):
    """The fields of an agent."""

    isolated_partitions: Boolean = False
    input: Input = Field(description="`topic: {name: …}` or `channel: {name: …}`")
    output: Output = Field(default=Output(), description="the topics that receive the results")
    processors: Processors = Field(default=Processors(), description="the operations on every event")


class KasprAgent(Resource):
    """An agent manifest."""

    kind: Literal["KasprAgent"]
    spec: AgentSpec = Field(description="at least `input`")
