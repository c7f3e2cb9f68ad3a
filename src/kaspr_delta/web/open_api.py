"""The OpenAPI document of the web views and of the server's own paths."""

from __future__ import annotations

import re
from typing import Any

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.paths import parts_of
from kaspr_delta.plan.definition.resources import WebViewPlan
from kaspr_delta.version import VERSION
from kaspr_delta.web.answer import PROBLEM, TEXT

_ANY: dict[str, Any] = {}
_BODIES = frozenset({"POST", "PUT", "PATCH"})


def document(plan: Plan, *, guarded: bool) -> dict[str, Any]:
    """The document of an application. ``guarded``: each request must bring a bearer token."""
    paths: dict[str, Any] = {}
    for view in plan.web_views:
        paths.setdefault(_template(view.path), {})[view.method.lower()] = _operation(view)
    for path, (summary, content_type) in _SYSTEM.items():
        answers = {"200": {"description": summary, "content": {content_type: {"schema": _ANY}}}}
        paths[path] = {"get": {"summary": summary, "operationId": path.strip("/"), "responses": answers}}
    security = {"bearer": {"type": "http", "scheme": "bearer"}} if guarded else {}
    return {
        "openapi": "3.1.0",
        "info": {"title": plan.application, "version": VERSION, "description": "Web views and the state of resources."},
        "paths": paths,
        "components": {"schemas": {"Problem": _PROBLEM}, "securitySchemes": security},
        **({"security": [{"bearer": []}]} if guarded else {}),
    }


_SYSTEM = {
    "/status/": ("The counters of resources, and of table and topic operations", "application/json"),
    "/metrics": ("Counters for Prometheus", TEXT),
}
_PROBLEM = {
    "type": "object",
    "description": "The problem (RFC 9457)",
    "required": ["title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}


def _operation(view: WebViewPlan) -> dict[str, Any]:
    content_type = view.response.content_type or "*/*"
    operation: dict[str, Any] = {
        "operationId": view.name,
        "summary": view.description or view.name,
        "parameters": [_parameter(part.parameter, part.text) for part in parts_of(view.path) if part.parameter],
        "responses": {
            "default": {
                "description": "An error of the view, or a problem of the server",
                "content": {"*/*": {"schema": _ANY}, PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
            }
        },
    }
    # The status that a selector chooses is not known beforehand.
    if view.response.status.on_success is None:
        success = {"description": "The last value of the pipeline", "content": {content_type: {"schema": _ANY}}}
        operation["responses"][str(view.response.status_code)] = success
    if view.method in _BODIES:
        operation["requestBody"] = {"content": {"application/json": {"schema": _ANY}}, "required": False}
    if view.tables:
        operation["x-kaspr-tables"] = list(view.tables)
    return operation


def _parameter(name: str, expression: str) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1}
    if expression != "[^/]+":
        schema["pattern"] = f"^(?:{expression})$"
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _template(path: str) -> str:
    return re.sub(r"//+", "/", "".join(f"{{{p.parameter}}}" if p.parameter else p.text for p in parts_of(path)))
