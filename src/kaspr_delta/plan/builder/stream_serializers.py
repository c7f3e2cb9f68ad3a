"""Refuse streams that cannot be joined or aggregated: keys and values must be kept as text, as in tables."""

from __future__ import annotations

from kaspr_delta.plan.builder.references import References
from kaspr_delta.plan.builder.sides import RecordSide
from kaspr_delta.plan.definition.resources import TopicInput
from kaspr_delta.spec.base import FieldPath
from kaspr_delta.spec.loader import LoadedManifest

_SPELLABLE = ("json", "raw")


def refuse_unspellable(source: LoadedManifest, at: FieldPath, stream: RecordSide, references: References) -> None:
    """Report serializers of a topic that are neither json nor raw."""
    if not isinstance(stream.plan.input, TopicInput):
        return
    for what, field, serializer in (
        ("keys", "keySerializer", stream.serializers.key),
        ("values", "valueSerializer", stream.serializers.value),
    ):
        if serializer not in _SPELLABLE:
            own = (*at, field) in source.positions.locations
            origin = "" if own else f", as config.{field} of the application says"
            message = f"topic '{stream.name}' is read with {serializer} {what}{origin}: here they must be json or raw"
            hint = f"add `{field}: json` or `raw` if the topic is so; otherwise let an agent write a topic that is"
            references.report.error(source.locate_value(*at, field if own else "topic"), message, hint)
