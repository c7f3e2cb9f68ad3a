"""Look up fields in the models, for hints about names that do not exist."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from kaspr_delta.spec.base import FieldPath, Spec


def spec_at(model: type[Spec], path: FieldPath) -> type[Spec] | None:
    """The model of the mapping at ``path``, or None if no model describes it."""
    current: type[Spec] | None = model
    of_any_name = False
    for step in path:
        # Indexes are skipped, because a list is declared by its elements. So are names that the author chooses.
        if isinstance(step, int) or of_any_name:
            of_any_name = False
            continue
        if current is None:
            return None
        of_any_name = step in _of_any_name(current)
        current = next((spec for name, spec in _mappings(current) if name == step), None)
    return current


def places_of(model: type[Spec], field: str, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The dotted paths of all mappings that have a field of that name."""
    if field in model.field_names():
        yield ".".join(path)
    for name, spec in _mappings(model):
        yield from places_of(spec, field, (*path, name))


def description_of(model: type[Spec], path: FieldPath) -> str:
    """The description of the field at ``path``, from its declaration; empty if there is none."""
    owner = spec_at(model, path[:-1])
    for name, field in (owner.model_fields if owner else {}).items():
        if (field.alias or name) == path[-1]:
            return field.description or ""
    return ""


def _mappings(model: type[Spec]) -> Iterator[tuple[str, type[Spec]]]:
    for name, field in model.model_fields.items():
        spec = _spec_in(field.annotation)
        if spec is not None:
            yield field.alias or name, spec


def _of_any_name(model: type[Spec]) -> Iterator[str]:
    """The fields that hold one mapping for each name that the author chooses."""
    for name, field in model.model_fields.items():
        if get_origin(field.annotation) is dict:
            yield field.alias or name


def _spec_in(annotation: Any) -> type[Spec] | None:
    origin = get_origin(annotation)
    if origin is None:  # before Python 3.11 list[str] is a type, too
        return annotation if isinstance(annotation, type) and issubclass(annotation, Spec) else None
    if origin is dict:
        return _spec_in(get_args(annotation)[1])
    if origin in {Union, types.UnionType, Annotated, tuple}:
        return next((spec for spec in map(_spec_in, get_args(annotation)) if spec is not None), None)
    return None
