"""The JSON schema of manifests and fixtures, for editors: the fields of each mapping and their descriptions.

The schema covers single fields: their names, their types, and whether they are required. Only ``kaspr-delta validate``
checks combinations of fields, and whether the resources that they name exist.
"""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core.core_schema import ModelField, WithDefaultSchema

from kaspr_delta.spec.base import Spec
from kaspr_delta.spec.fixture import Fixture
from kaspr_delta.spec.manifest import KINDS
from kaspr_delta.spec.resource import API_VERSION

# The draft that editors know best; it has `if` and `then`.
_DRAFT = "http://json-schema.org/draft-07/schema#"

Schema = dict[str, Any]


def manifest_schema() -> Schema:
    """The JSON schema of one manifest of any kind, or of one fixture. A file of several has one per document."""
    models: tuple[type[Spec], ...] = (*KINDS.values(), Fixture)
    _, generated = models_json_schema([(one, "validation") for one in models], schema_generator=_OfFields)
    for schema in generated["$defs"].values():
        del schema["title"]
    return {
        "$schema": _DRAFT,
        "title": "Kaspr manifest",
        "description": "A resource of Kaspr, as kaspr-delta runs it, or a test of an application.",
        "type": "object",
        "if": {"required": ["test"]},
        "then": {"$ref": f"#/$defs/{Fixture.__name__}"},
        "else": {
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
        },
        "$defs": generated["$defs"],
    }


class _OfFields(GenerateJsonSchema):
    """Fields without repetitions. One that may be absent may also stand without a value, as ``key:``."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def model_field_schema(self, schema: ModelField) -> JsonSchemaValue:
        field = super().model_field_schema(schema)
        # This draft ignores everything beside a `$ref`.
        return {"allOf": [field]} if "$ref" in field else field

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        field = super().default_schema(schema)
        default = field.pop("default", None)
        # The default of a mapping or list is that nothing is given.
        shown = {} if default is None or isinstance(default, (dict, list)) else {"default": default}
        takes_nothing = not field or {"type": "null"} in field.get("anyOf", ())
        return {**shown, **(field if takes_nothing else {"anyOf": [field, {"type": "null"}]})}
