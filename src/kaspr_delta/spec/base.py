"""The base classes of the models of manifests.

Each mapping has one class, and each field is declared once. A field without a description is accepted without effect.
Names are in camelCase as in Kaspr, unknown names are refused, values are frozen. :meth:`Spec.problems` checks rules
between fields: all broken rules are reported at once, each with its location.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails, PydanticCustomError
from typing_extensions import Self

from kaspr_delta.spec.near import listing

FieldPath = tuple[str | int, ...]

PROBLEMS = "kaspr_problems"
"""The pydantic error type that carries our own :class:`Problem` values."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A broken rule: a message, a hint what to do, and the path of the field, relative to the mapping that is checked.

    ``other`` is the path of a second field: its location replaces ``{other}`` in the message. One of the fields in
    ``absent`` is required: if one of them is misspelt, the misspelling is reported instead.
    """

    message: str
    hint: str = ""
    at: FieldPath = ()
    other: FieldPath | None = None
    absent: tuple[FieldPath, ...] = ()

    def below(self, field: str) -> Problem:
        """The same problem, relative to the mapping that holds this one in a field."""
        return replace(self, at=(field, *self.at))


def optional(description: str, **settings: Any) -> Any:
    """A field that may be absent, with the description that editors and the reference show."""
    return Field(default=None, description=description, **settings)


def one_of(
    written: Mapping[str, Any], fields: Sequence[str], rule: str, remedy: str = "remove one of the two"
) -> Iterator[Problem]:
    """A problem for each of the fields that is written beside an earlier one."""
    first, *others = [name for name in fields if written.get(name) is not None] or [""]
    for other in others:
        yield Problem(f"{rule}: '{other}' excludes '{first}' (at {{other}})", remedy, (other,), (first,))


def exactly_one(
    written: Mapping[str, Any], fields: Sequence[str], what: str, hint: str, at: FieldPath = ()
) -> Iterator[Problem]:
    """The problem that none of the fields is written, of which ``what`` needs one, or that several are."""
    yield from one_of(written, fields, f"{what} has one of {listing(fields)}")
    if all(written.get(name) is None for name in fields):
        yield Problem(f"{what} needs {listing(fields, 'or')}", hint, at, absent=tuple((name,) for name in fields))


def _refused(*problems: Problem) -> PydanticCustomError:
    """The error to raise from a pydantic validator for one or more problems."""
    return PydanticCustomError(PROBLEMS, "{message}", {"message": problems[0].message, "problems": problems})


def checked(rule: Callable[[Any], Iterable[Problem]]) -> AfterValidator:
    """The annotation of a field that keeps a rule: a function of its value that gives the problems with it."""

    def check(value: Any) -> Any:
        if found := tuple(rule(value)):
            raise _refused(*found)
        return value

    return AfterValidator(check)


class Spec(BaseModel):
    """A mapping in a manifest. ``key: `` without a value counts as absent, as it does in Kubernetes."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, defer_build=True)

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(data, dict):
            return handler(data)
        known, broken = cls.fields_by_name(), tuple(cls.combination_problems(data))
        try:
            spec = handler({key: value for key, value in data.items() if value is not None or key not in known})
        except ValidationError as error:
            if not broken:
                raise
            both = [*_details(error), InitErrorDetails(type=_refused(*broken), input=data)]
            raise ValidationError.from_exception_data(cls.__name__, both) from None
        if found := (*broken, *spec.problems()):
            raise _refused(*found)
        return spec

    def problems(self) -> Iterator[Problem]:
        """The broken rules between fields. Overridden by mappings that have such rules."""
        yield from ()

    @classmethod
    def combination_problems(cls, written: Mapping[str, Any]) -> Iterator[Problem]:  # noqa: ARG003
        """The broken rules about combinations of fields, reported together with mistakes in the fields themselves.

        ``written`` is the mapping as in the YAML. Overridden by mappings that have such rules.
        """
        yield from ()

    @classmethod
    def fields_by_name(cls) -> dict[str, FieldInfo]:
        """The fields by their names as they are written in YAML."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}


class OpenSpec(Spec):
    """A mapping that keeps further fields unread: those of Kubernetes objects, and settings Kaspr may add."""

    model_config = ConfigDict(extra="allow")


def _details(error: ValidationError) -> Iterator[InitErrorDetails]:
    """The errors found, to be raised again together with others."""
    for found in error.errors(include_url=False):
        context = found.get("ctx", {})
        kind = PydanticCustomError(PROBLEMS, "{message}", context) if found["type"] == PROBLEMS else found["type"]
        yield InitErrorDetails(type=kind, loc=found["loc"], input=found["input"], ctx=context)


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
SettingText = Annotated[str, BeforeValidator(_as_text), WithJsonSchema({"type": ["string", "number", "boolean"]})]
TextMap = dict[str, SettingText]
OpenMap = dict[str, Any]
