"""Answers of templates, with the headers that keep other sites and scripts out of a page."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from kaspr_delta.control.kubectl import age
from kaspr_delta.plan.definition.waiting import what_for
from kaspr_delta.serde.unfolded import shown
from kaspr_delta.web.answer import Answer
from kaspr_delta.web.flows import brief

_SCRIPT = "slider"


def rendered(template: str, values: Mapping[str, Any], status: int = 200) -> Answer:
    """A page. Raises UndefinedError if the template needs a value that is not given."""
    page = _templates().get_template(template).render(values)
    return Answer.of(status, _headers(), page, "text/html")


# Once in a process: to compile the templates takes longer than to fill them in.
@cache
def _templates() -> Environment:
    loader = PackageLoader("kaspr_delta.web")
    templates = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters |= {"age": age, "brief": brief, "cell": shown, "what_for": what_for}
    templates.globals[_SCRIPT], _, _ = loader.get_source(templates, f"{_SCRIPT}.js")
    return templates


@cache
def _headers() -> tuple[tuple[str, str], ...]:
    """Only the script of the templates may run, and no other site may frame these pages."""
    script = str(_templates().globals[_SCRIPT])
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    return (
        ("content-security-policy", policy),
        ("cache-control", "no-store"),
        ("referrer-policy", "same-origin"),
        ("x-content-type-options", "nosniff"),
    )
