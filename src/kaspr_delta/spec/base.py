"""The base of everything that can be written in a manifest.

One class per thing, every field told once: names in camelCase as in Kaspr, unknown names refused, values frozen.
Rules between fields are written as :meth:`Spec.problems`: all are reported at once, each with its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError
from typing_extensions import Self

FieldPath = tuple[str | int, ...]

PROBLEMS = "kaspr_problems"
"""The pydantic error type that carries our own :class:`Problem` values."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A broken rule: what is wrong, what to do, and the field (below the one checked) at which to look."""

    message: str
    hint: str = ""
    at: FieldPath = ()


def refused(*problems: Problem) -> PydanticCustomError:
    """The error to raise from a pydantic validator for one or more problems."""
    return PydanticCustomError(PROBLEMS, "{message}", {"message": problems[0].message, "problems": problems})


class Spec(BaseModel):
    """A mapping in a manifest. ``key: `` without a value counts as absent, as it does in Kubernetes."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, validate_by_name=False, validate_by_alias=True
    )

    @model_validator(mode="before")
    @classmethod
    def _empty_is_absent(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        known = cls.field_names()
        return {key: value for key, value in data.items() if value is not None or key not in known}

    @model_validator(mode="after")
    def _keeps_its_rules(self) -> Self:
        if found := tuple(self.problems()):
            raise refused(*found)
        return self

    def problems(self) -> Iterator[Problem]:
        """The rules between fields that are broken. Overridden where a mapping has any."""
        yield from ()

    @classmethod
    def field_names(cls) -> frozenset[str]:
        """The names of the fields as they are written in YAML."""
        return frozenset(field.alias or name for name, field in cls.model_fields.items())


class OpenSpec(Spec):
    """A mapping that keeps further fields unread: those of Kubernetes objects, and settings Kaspr may add."""

    model_config = ConfigDict(extra="allow")


def _as_text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


# A quoted number stays text and a bare one a number: silent conversions hide mistakes.
Integer = Annotated[int, Field(strict=True)]
NaturalNumber = Annotated[int, Field(strict=True, ge=0)]
PositiveInteger = Annotated[int, Field(strict=True, ge=1)]
Number = Annotated[float, Field(strict=True)]
Boolean = Annotated[bool, Field(strict=True)]
Text = Annotated[str, Field(min_length=1)]
# Kafka's settings are text; people write numbers.
SettingText = Annotated[str, BeforeValidator(_as_text)]
TextMap = dict[str, SettingText]
OpenMap = dict[str, Any]
