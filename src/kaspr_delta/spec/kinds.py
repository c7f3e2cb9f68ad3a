"""The kinds of resources, and their plural and short names as in kubectl."""

from __future__ import annotations

from kaspr_delta.errors import NotFoundError

_SHORT = {
    "KasprApp": ("app", "kapp", "kapps"),
    "KasprTable": ("table", "ktable", "ktables"),
    "KasprJoin": ("join", "kjoin", "kj"),
    "KasprAgent": ("agent", "kagent", "kagents"),
    "KasprWebView": ("webview", "kwebview", "kwebviews"),
    "KasprTask": ("task", "ktask", "ktasks"),
}
_BY_NAME = {
    name: kind for kind, short in _SHORT.items() for name in (kind.lower(), f"{kind.lower()}s", f"{short[0]}s", *short)
}

KINDS_BY_COMMAND = tuple(_SHORT)
"""All kinds, in the order in which ``get all`` lists them."""
BOUND_TOPIC = "KasprTopic"
"""The kind of bound topics in events."""


def kind_called(name: str) -> str:
    """The kind with this full, plural or short name: KasprJoin for ``kj``. Raises NotFoundError."""
    kind = _BY_NAME.get(name.lower())
    if kind is None:
        raise NotFoundError.among("kind", name, [short[0] for short in _SHORT.values()])
    return kind


def is_kind(kind: str) -> bool:
    """Whether a kind with this full name is known."""
    return kind in _SHORT


def event_kind(name: str) -> str:
    """The kind with this name in events. A bound topic, which has no manifest, has them too.

    >>> event_kind("join"), event_kind("topic")
    ('KasprJoin', 'KasprTopic')
    """
    return BOUND_TOPIC if name == "topic" else kind_called(name)


def short_kind(kind: str) -> str:
    """The short name of a kind, as in ``kind/name``: join for KasprJoin."""
    return _SHORT[kind][0]
