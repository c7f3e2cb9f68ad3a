"""Pydantic's errors as findings: a location in the YAML, and a sentence that says what is expected there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from kaspr_delta.spec.base import PROBLEMS, FieldPath, Problem, Spec
from kaspr_delta.spec.diagnostics import Finding, Positions, Severity, finding_of
from kaspr_delta.spec.fields import description_of, places_of, spec_at
from kaspr_delta.spec.manifest import KINDS
from kaspr_delta.spec.near import listing, nearest, suggestion
from kaspr_delta.spec.resource import API_VERSION

_LONGEST_QUOTE = 40
_TRUTHS = {**dict.fromkeys(("true", "yes", "on"), "true"), **dict.fromkeys(("false", "no", "off"), "false")}

_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping of fields",
    "model_attributes_type": "a mapping of fields",
}


def field_name(path: FieldPath) -> str:
    """A path as people write it.

    >>> field_name(("spec", "operations", 0, "map"))
    'spec.operations[0].map'
    """
    name = ""
    for step in path:
        name += f"[{step}]" if isinstance(step, int) else f".{step}" if name else step
    return name


def manifest_findings(errors: list[ErrorDetails], data: Mapping[str, Any], positions: Positions) -> Iterator[Finding]:
    """The findings for the errors of one manifest."""
    kind = data.get("kind")
    if isinstance(kind, str) and kind in KINDS and "apiVersion" in data and data["apiVersion"] != API_VERSION:
        # Another version has other fields: further findings would be noise.
        at = positions.value(("apiVersion",))
        message = f"'apiVersion' must be '{API_VERSION}', found {found(data['apiVersion'])}"
        yield Finding(Severity.ERROR, at, message, f"write `apiVersion: {API_VERSION}`")
        return
    if any(error["type"] in {"union_tag_invalid", "union_tag_not_found"} for error in errors):
        yield _kind_finding(data, positions)
        return
    # The first step of a path is the kind by which pydantic chose the model.
    for name, model in KINDS.items():
        own = [error for error in errors if error["loc"][0] == name]
        yield from spec_findings(model, [ErrorDetails({**error, "loc": error["loc"][1:]}) for error in own], positions)


def spec_findings(model: type[Spec], errors: list[ErrorDetails], positions: Positions) -> Iterator[Finding]:
    """The findings for the errors of one document of a model."""
    misspelt = set(_misspelt(model, errors))
    for error in errors:
        # If a required field is misspelt, only the misspelling is reported.
        if error["type"] != "missing" or error["loc"] not in misspelt:
            yield from _findings(model, error, positions, misspelt)


def _misspelt(model: type[Spec], errors: list[ErrorDetails]) -> Iterator[FieldPath]:
    """The paths of the known fields that unknown fields most likely mean."""
    for error in errors:
        if error["type"] == "extra_forbidden":
            owner = spec_at(model, error["loc"][:-1])
            near = nearest(str(error["loc"][-1]), owner.fields_by_name() if owner else ())
            if near is not None:
                yield *error["loc"][:-1], near


def _findings(
    model: type[Spec], error: ErrorDetails, positions: Positions, misspelt: Collection[FieldPath]
) -> Iterator[Finding]:
    path = tuple(step for step in error["loc"] if step != "[key]")
    if error["type"] == PROBLEMS:
        problems: tuple[Problem, ...] = error["ctx"]["problems"]
        for problem in problems:
            if not any((*error["loc"], *field) in misspelt for field in problem.absent):
                yield finding_of(problem, path, positions)
        return
    if error["type"] in {"extra_forbidden", "missing"}:
        message, hint = _about_the_key(error["type"], model, path, positions)
        yield Finding(Severity.ERROR, positions.key(path), message, hint)
    else:
        message, hint = _about_the_value(error, model, path, positions.written(path))
        yield Finding(Severity.ERROR, positions.value(path), message, hint)


def _about_the_key(error: str, model: type[Spec], path: FieldPath, positions: Positions) -> tuple[str, str]:
    where = f"in {field_name(path[:-1])}" if path[:-1] else "at the top level"
    if error == "extra_forbidden":
        return f"unknown field '{path[-1]}' {where}", _unknown_hint(model, path)
    lack, hint = "is empty" if path in positions.locations else "is missing", description_of(model, path)
    written = positions.written(path)
    if written:  # such as ~ or null
        hint = f'{hint}; put it in quotes if it is text: "{written}"'
    return f"required field '{path[-1]}' {lack} {where}", hint


def _about_the_value(error: ErrorDetails, model: type[Spec], path: FieldPath, written: str | None) -> tuple[str, str]:
    name, value, context = field_name(path), error["input"], error.get("ctx", {})
    shown = found(value, written)
    match error["type"]:
        case "literal_error":
            choices = [choice.strip("'") for choice in context["expected"].replace(" or ", ", ").split(", ")]
            near = nearest(value, choices) if isinstance(value, str) else None
            message = f"'{name}' must be {listing(choices, 'or')}, found {shown}"
            return message, f"did you mean '{near}'?" if near else ""
        case "greater_than_equal":
            return f"'{name}' must be at least {context['ge']}, found {shown}", ""
        case "less_than_equal":
            return f"'{name}' must be at most {context['le']}, found {shown}", ""
        case "string_too_short":
            return f"'{name}' must not be empty", description_of(model, path)
        case kind if kind in _EXPECTED:
            expected = _EXPECTED[kind]
            as_text = _hint_for_text(model, path, written) if expected == "text" and written else ""
            return f"'{name}' must be {expected}, found {shown}", as_text or _conversion_hint(expected, value, written)
        case _:
            # Our models give no other errors. An error that a new pydantic may add is still shown with its location.
            return f"'{name}' is not valid: {error['msg']}", ""


def found(value: object, written: str | None = None) -> str:
    """The value that was found, in words for a message. A number is shown as it was ``written``.

    >>> found(6), found("six"), found(None)
    ('the number 6', "the text 'six'", 'nothing')
    """
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"the number {written or value}"
        case str():
            text = value if len(value) <= _LONGEST_QUOTE else f"{value[:_LONGEST_QUOTE]}…"
            return f"the text {text!r}"
        case dict():
            return "a mapping"
        case _:
            return "a list"


def _conversion_hint(expected: str, value: object, written: str | None) -> str:
    if expected == "text" and written:
        return f'put it in quotes: "{written}"'
    if expected == "a list" and isinstance(value, str):
        return f"write [{value}]"
    if isinstance(value, str) and expected == "true or false" and value.lower() in _TRUTHS:
        return f"write {_TRUTHS[value.lower()]}"
    if isinstance(value, str) and "number" in expected and value.strip().isdigit():
        return f"write {value.strip()} without quotes"
    return ""


def _hint_for_text(model: type[Spec], path: FieldPath, written: str) -> str:
    """The hint about a value if it were a text that its field refuses too; else nothing."""
    owner = spec_at(model, path[:-1])
    if owner is None:
        return ""
    try:
        owner.model_validate({path[-1]: written})
    except ValidationError as error:
        for one in error.errors():
            for problem in one["ctx"]["problems"] if one["type"] == PROBLEMS else ():
                if (*one["loc"], *problem.at) == path[-1:]:
                    return str(problem.hint)
    return ""


def _unknown_hint(model: type[Spec], path: FieldPath) -> str:
    owner, field = spec_at(model, path[:-1]), str(path[-1])
    known = owner.fields_by_name() if owner else frozenset()
    near = nearest(field, known)
    if near is None:
        elsewhere = list(places_of(model, field))
        # A field one level too high is the common mistake: fields below come first.
        below = [name for name in elsewhere if name.startswith(f"{field_name(path[:-1])}.")]
        for names in (below, elsewhere):
            if len(names) == 1:
                return f"it belongs in {names[0] or 'the top level'}"
    return suggestion(field, known, "known here")


def _kind_finding(data: Mapping[str, Any], positions: Positions) -> Finding:
    kind = data.get("kind")
    if kind is None:
        message = "required field 'kind' is missing at the top level"
        return Finding(Severity.ERROR, positions.key(("kind",)), message, f"the kinds are {listing(KINDS)}")
    message = f"unknown kind '{kind}'" if isinstance(kind, str) else f"'kind' must be text, found {found(kind)}"
    api_version = data.get("apiVersion")
    if isinstance(api_version, str) and api_version != API_VERSION:
        message = f"'{kind}' of '{api_version}' is no manifest of '{API_VERSION}'"
    return Finding(Severity.ERROR, positions.value(("kind",)), message, suggestion(str(kind), KINDS, "the kinds are"))
