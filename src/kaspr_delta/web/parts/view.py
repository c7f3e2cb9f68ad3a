"""How to try a web view, and the answers that it gave."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from kaspr_delta.plan.definition.paths import parts_of
from kaspr_delta.plan.definition.resources import WebViewPlan
from kaspr_delta.web.parts.chart import Point, chart
from kaspr_delta.web.traffic import ViewTraffic

_FAULT = 500
_QUERY = "query"


def view_values(view: WebViewPlan, traffic: ViewTraffic, root: str, *, guarded: bool) -> dict[str, Any]:
    """The values for the template. ``guarded``: each request needs a token, which a browser cannot send."""
    points = [
        Point(one.at, one.seconds * 1_000, f"{one.status} in {one.seconds * 1_000:,.1f} ms", one.status >= _FAULT)
        for one in traffic.recent
    ]
    return {
        "plan": view,
        "parameters": [part.parameter for part in parts_of(view.path) if part.parameter is not None],
        "can_try": view.method == "GET" and not guarded,
        "curl": _curl(view, root, guarded=guarded),
        "traffic": traffic,
        "chart": chart("milliseconds", points) if points else None,
    }


def address(view: WebViewPlan, given: Mapping[str, str]) -> str | None:
    """The address of a view with given parameters of its path, and a query; None if a parameter has no value.

    Without a value the path could begin with two slashes, after which browsers read the name of another server.
    """
    names = [part.parameter for part in parts_of(view.path) if part.parameter is not None]
    if not all(map(given.get, names)):
        return None
    pieces = (
        quote(part.text, safe="/") if part.parameter is None else quote(given[part.parameter], safe="")
        for part in parts_of(view.path)
    )
    query = given.get(_QUERY, "").lstrip("?") if _QUERY not in names else ""
    return "".join(pieces) + (f"?{quote(query, safe='=&%+')}" if query else "")


def _curl(view: WebViewPlan, root: str, *, guarded: bool) -> str:
    """The command that sends a request, with the parameters of the path in capitals."""
    path = "".join(part.text if part.parameter is None else part.parameter.upper() for part in parts_of(view.path))
    parts = ["curl"]
    if view.method not in {"GET", "HEAD"}:
        parts += ["-X", view.method, "-H", "content-type: application/json", "-d", json.dumps({"key": "value"})]
    elif view.method == "HEAD":
        parts.append("-I")
    command = shlex.join(parts)
    token = ' -H "authorization: Bearer $KASPR_DELTA_TOKEN"' if guarded else ""
    return f'{command}{token} "$SERVER{root}{path}"'
