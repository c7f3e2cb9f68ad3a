"""The JSON schema of manifests, for editors: the fields of each mapping and their descriptions.

The schema covers single fields: their names, their types, and whether they are required. Only ``kaspr-delta validate``
checks combinations of fields, and whether the resources that they name exist.
"""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from kaspr_delta.spec.manifest import KINDS
from kaspr_delta.spec.resource import API_VERSION

# The draft that editors know best; it has `if` and `then`.
_DRAFT = "http://json-schema.org/draft-07/schema#"

Schema = dict[str, Any]


def manifest_schema() -> Schema:
    """The JSON schema of one manifest of any kind. A file of several manifests has one per document."""
    _, generated = models_json_schema([(model, "validation") for model in KINDS.values()])
    definitions = {name: _plain(schema) for name, schema in generated["$defs"].items()}
    return {
        "$schema": _DRAFT,
        "title": "Kaspr manifest",
        "description": "A resource of Kaspr, as kaspr-delta runs it.",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata"],
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"enum": list(KINDS), "description": "the kind of resource"},
        },
        # Not oneOf: for any mistake an editor would also show the errors of all other kinds.
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]},
                "then": {"$ref": f"#/$defs/{kind}"},
            }
            for kind in KINDS
        ],
        "$defs": definitions,
    }


def _plain(schema: Schema) -> Schema:
    """A generated schema without repetitions, in which an optional field may stand without a value."""
    required = schema.get("required", ())
    properties = {
        name: _field(field) if name in required else _or_nothing(_field(field))
        for name, field in schema.get("properties", {}).items()
    }
    return {
        **{name: value for name, value in schema.items() if name != "title"},
        **({"properties": properties} if properties else {}),
    }


def _field(schema: Schema) -> Schema:
    """A field. This draft ignores everything beside a ``$ref``, so the reference is moved into ``allOf``."""
    kept = {name: value for name, value in schema.items() if name != "title" and not _is_bulky_default(name, value)}
    reference = kept.pop("$ref", None)
    return kept if reference is None else {**kept, "allOf": [{"$ref": reference}]}


def _or_nothing(field: Schema) -> Schema:
    """A field that may stand without a value, as ``key:``."""
    if not {"type", "anyOf", "allOf", "enum", "const"} & field.keys() or {"type": "null"} in field.get("anyOf", ()):
        return field  # it takes anything, or null
    about = {name: value for name, value in field.items() if name in {"description", "default"}}
    value = {name: value for name, value in field.items() if name not in about}
    return {**about, "anyOf": [value["allOf"][0] if set(value) == {"allOf"} else value, {"type": "null"}]}


def _is_bulky_default(name: str, value: Any) -> bool:
    """Whether a default says nothing: null, or the default of a mapping or list, which is that nothing is given."""
    return name == "default" and (value is None or isinstance(value, (dict, list)))
