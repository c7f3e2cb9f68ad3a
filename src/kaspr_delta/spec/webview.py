"""KasprWebView: a pipeline that answers HTTP requests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from kaspr_delta.spec.base import Problem, Spec, Text, TextMap, one_of, optional
from kaspr_delta.spec.patterns import expression_problem
from kaspr_delta.spec.processors import Processors
from kaspr_delta.spec.resource import Code, Resource, ResourceSpec

PARAMETER = re.compile(r"\{([^{}:]*)(?::((?:[^{}]|\{[^{}]*\})*))?\}")
"""A parameter of a path, {name} or {name:regex}; the expression may hold braces of its own, as in {year:[0-9]{4}}."""


# RFC 9110: a name is a token, and a value has no blanks at its edges.
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
HEADER_VALUE = re.compile(r"(?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?")


# A reference to a group by its number, or a condition on one: in a path the groups have other numbers.
_REFERENCE = re.compile(r"(?<!\\)(?:\\\\)*(?:\\[1-9]|\(\?\()")
_FLAGS = re.compile(r"\(\?[aiLmsux]+\)")


def _problem_in_path(expression: str) -> str | None:
    """The reason why an expression cannot be that of a parameter: it stands with others in one expression."""
    alone = expression_problem(expression)
    if alone is not None:
        return f"is no regular expression: {alone}"
    if re.compile(expression).groupindex or _REFERENCE.search(expression):
        return "cannot stand in a path: it names a group, or refers to one"
    if _FLAGS.match(expression):
        return "cannot stand in a path: its flags would hold for all of it, write (?i:…)"
    return None


class Request(Spec):
    """Which requests are answered. ``path`` may hold parameters: ``/user/{user_id}`` or ``/user/{user_id:[0-9]+}``."""

    method: Literal["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"] = Field(
        description="the HTTP method, such as GET"
    )
    path: Text = Field(description="the path of the URL, such as /user/{user_id}")

    def problems(self) -> Iterator[Problem]:
        if not self.path.startswith("/"):
            yield Problem(f"the path '{self.path}' does not begin with '/'", f"write '/{self.path}'", ("path",))
        names = [match[1] for match in PARAMETER.finditer(self.path)]
        rest = PARAMETER.sub("", self.path)
        if "{" in rest or "}" in rest:
            yield Problem(f"the braces of the path '{self.path}' do not match", "a parameter is {name}", ("path",))
        for match in PARAMETER.finditer(self.path):
            if (broken := _problem_in_path(match[2] or "")) is not None:
                yield Problem(f"'{match[2]}' {broken}", "such as {year:[0-9]{4}}", ("path",))
        for name in dict.fromkeys(names):
            if not (name.isascii() and name.isidentifier()):
                hint = "letters, digits and '_', such as {user_id}"
                yield Problem(f"'{name}' cannot be a path parameter", hint, ("path",))
            if names.count(name) > 1:
                yield Problem(f"the path parameter '{name}' stands twice in '{self.path}'", "rename one", ("path",))


class ResponseSelector(Spec):
    """Functions of the last value (``onSuccess``) and of the error (``onError``)."""

    on_success: Code | None = optional("a Python function of the last value")
    on_error: Code | None = optional("a Python function of the error")

    def problems(self) -> Iterator[Problem]:
        if not self.on_success and not self.on_error:
            yield Problem("a selector needs 'onSuccess' or 'onError'", "each holds a function under 'python'")


class Response(Spec):
    """How the last value becomes an HTTP response."""

    content_type: Literal["text/html", "application/json", "text/plain", "application/octet-stream"] | None = optional(
        "the type of the body"
    )
    status_code: Annotated[int, Field(strict=True, ge=200, le=599)] | None = optional(
        "the status, where it is always the same"
    )
    headers: TextMap | None = optional("the headers, where they are always the same")
    body_selector: ResponseSelector | None = optional("functions that make the body")
    status_code_selector: ResponseSelector | None = optional("functions that give the status")
    headers_selector: ResponseSelector | None = optional("functions that give the headers")

    def problems(self) -> Iterator[Problem]:
        for name, value in (self.headers or {}).items():
            if not HEADER_NAME.fullmatch(name):
                yield Problem(f"'{name}' is no name of a header", "such as Cache-Control", ("headers",))
            if not HEADER_VALUE.fullmatch(value):
                hint = "one line of Latin-1 characters, without blanks at its edges"
                yield Problem(f"{value!r} is no value of a header", hint, ("headers", name))

    @classmethod
    def combination_problems(cls, written: Mapping[str, Any]) -> Iterator[Problem]:
        yield from one_of(written, ("statusCode", "statusCodeSelector"), "the status is given in one way")
        yield from one_of(written, ("headers", "headersSelector"), "headers are given in one way")


class WebViewSpec(ResourceSpec):
    """The fields of a web view."""

    request: Request = Field(description="`method` and `path`")
    response: Response = Field(default=Response(), description="how the last value becomes the answer")
    processors: Processors = Field(default=Processors(), description="the operations on every request")


class KasprWebView(Resource):
    """A web view manifest."""

    kind: Literal["KasprWebView"]
    spec: WebViewSpec = Field(description="at least `request`")
