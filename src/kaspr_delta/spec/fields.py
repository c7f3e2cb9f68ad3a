"""Look up fields in the models, for hints about names that do not exist."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from kaspr_delta.spec.base import FieldPath, Spec


def spec_at(model: type[Spec], path: FieldPath) -> type[Spec] | None:
    """The model of the mapping at ``path``, or None if no model describes it. ``*`` stands for any one element."""
    named = False
    for step in path:
        # Indexes are skipped, because a list is declared by its elements. So are names that the author chooses.
        if isinstance(step, int) or step == "*" or named:
            named = False
        elif step in _mappings(model):
            model, named = _mappings(model)[step]
        else:
            return None
    return model


def places_of(model: type[Spec], field: str, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The dotted paths of all mappings that have a field of that name."""
    if field in model.fields_by_name():
        yield ".".join(path)
    for name, (spec, _) in _mappings(model).items():
        yield from places_of(spec, field, (*path, name))


def description_of(model: type[Spec], path: FieldPath) -> str:
    """The description of the field at ``path``, from its declaration; empty if there is none."""
    owner = spec_at(model, path[:-1])
    field = owner.fields_by_name().get(str(path[-1])) if owner else None
    return (field and field.description) or ""


@functools.cache
def _mappings(model: type[Spec]) -> dict[str, tuple[type[Spec], bool]]:
    """The fields that hold mappings with a model, and whether there is one for each name that the author chooses."""
    return {
        name: (spec, get_origin(field.annotation) is dict)
        for name, field in model.fields_by_name().items()
        if (spec := _spec_in(field.annotation)) is not None
    }


def _spec_in(annotation: Any) -> type[Spec] | None:
    origin = get_origin(annotation)
    if origin is None:  # before Python 3.11 list[str] is a type, too
        return annotation if isinstance(annotation, type) and issubclass(annotation, Spec) else None
    if origin is dict:
        return _spec_in(get_args(annotation)[1])
    if origin in {Union, types.UnionType, Annotated, tuple}:
        return next((spec for spec in map(_spec_in, get_args(annotation)) if spec is not None), None)
    return None
