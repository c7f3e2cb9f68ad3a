"""The server as an ASGI application: who may ask, which view answers, and what is said when none does."""

from __future__ import annotations

import contextlib
import hmac
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import anyio
from anyio import to_thread
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from kaspr_delta.plan.paths import decoded
from kaspr_delta.serde.json_lines import json_line
from kaspr_delta.web.answer import JSON, Answer, problem
from kaspr_delta.web.open_api import document
from kaspr_delta.web.pages import Pages
from kaspr_delta.web.request import Request
from kaspr_delta.web.served import Route, Served
from kaspr_delta.web.view import View

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

_log = logging.getLogger(__name__)
# So many requests of one view are worked on at once: functions that hang hold up their own view only.
_AT_ONCE = 16
# Seconds beyond its limit after which a view is not waited for, because its function waits outside Python.
_PATIENCE = 2.0
_BODY = 10 * 2**20
_FORWARDED = ("x-forwarded-email", "x-forwarded-user", "x-forwarded-preferred-username")


@dataclass(frozen=True)
class Access:
    """Who may ask. ``token``: what each request brings as a bearer token; empty: nothing.

    ``behind_proxy``: a proxy that cannot be passed by tells who asks in headers, as on Databricks Apps.
    """

    token: str = field(default="", repr=False)
    behind_proxy: bool = False

    def admits(self, authorization: str | None) -> bool:
        """Whether a request with this Authorization header may be answered."""
        if not self.token:
            return True
        scheme, _, given = (authorization or "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self.token.encode())


@dataclass
class WebApplication:
    """What a server such as uvicorn runs."""

    served: Served
    access: Access = Access()
    pages: Pages | None = None
    most_bytes: int = _BODY
    _limits: dict[str, anyio.CapacityLimiter] = field(default_factory=dict, init=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            started = time.monotonic()
            try:
                answer = await self._answer(HttpRequest(scope, receive))
            except ClientDisconnect:
                return
            except Exception:  # noqa: BLE001  a traceback is never an answer
                _log.exception("%s %s cannot be answered", scope["method"], scope["path"])
                answer = problem(500, "the server failed; its log tells why")
            self.served.metrics.answered(answer.status, time.monotonic() - started)
            await _response(answer, head=scope["method"] == "HEAD")(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        async with _running(self.served):
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, http: HttpRequest) -> Answer:
        try:
            path = _path(http.scope)
        except ValueError:
            return problem(400, "the path is not UTF-8")
        if path == "/healthz":
            return Answer.of(200, (), {"ready": self.served.store.ready})
        if not self.access.admits(http.headers.get("authorization")):
            return problem(401, "a bearer token is needed", [("www-authenticate", "Bearer")])
        system = self._system(path, str(http.scope.get("root_path", "")).rstrip("/"))
        if system is not None and http.method in {"GET", "HEAD"}:
            return await to_thread.run_sync(system)
        if system is not None:
            return problem(405, f"{path} is there to be read", [("allow", "GET, HEAD")])
        found = self.served.site.route(path)
        return await self._of_view(http, *found) if found else problem(404, "no web view answers this path")

    async def _of_view(self, http: HttpRequest, route: Route, parameters: dict[str, str]) -> Answer:
        methods = route.methods
        view = methods.get(http.method) or (methods.get("GET") if http.method == "HEAD" else None)
        if view is None:
            allowed = sorted({*methods, *(["HEAD"] if "GET" in methods else [])})
            return problem(405, f"{route.path.text} answers {', '.join(allowed)}", [("allow", ", ".join(allowed))])
        if isinstance(view, str):
            return problem(503, view)
        body = bytearray()
        async for chunk in http.stream():
            body += chunk
            if len(body) > self.most_bytes:
                return problem(413, f"the body has more than {self.most_bytes} bytes", [("connection", "close")])
        request = Request(
            http.method,
            http.url.path,
            http.url.query,
            http.headers,
            parameters,
            bytes(body),
            self._user(http),
        )
        return await self._in_a_thread(view, request)

    async def _in_a_thread(self, view: View, request: Request) -> Answer:
        limit = self._limits.setdefault(view.plan.name, anyio.CapacityLimiter(_AT_ONCE))
        with anyio.move_on_after(view.timeout + _PATIENCE):
            return await to_thread.run_sync(view.answer, request, limiter=limit, abandon_on_cancel=True)
        return problem(504, f"{view.plan.ref} has not answered in time")

    def _system(self, path: str, root: str) -> Callable[[], Answer] | None:
        """What the server itself answers at a path, if anything. A view may answer at ``/``; if none does, pages do."""
        pages, site = self.pages, self.served.site
        if pages is not None and path == "/" and site.route(path) is None:
            return lambda: Answer(307, (("location", f"{root}/ui/"),), b"")
        if pages is not None and (path == "/ui" or path.startswith("/ui/")):
            return lambda: pages.page(site.plan, path, root) or problem(404, "there is no such page")
        match path:
            case "/metrics":
                return lambda: Answer(200, (("content-type", _PROMETHEUS),), self.served.metrics.text())
            case "/status" | "/status/":
                return lambda: Answer(200, (("content-type", JSON),), json_line(self._status()).encode())
            case "/openapi.json":
                guarded = bool(self.access.token)
                return lambda: Answer.of(200, (), document(site.plan, guarded=guarded))
        return None

    def _status(self) -> dict[str, Any]:
        """Kaspr's fields, and what ``kaspr-delta status -o json`` says."""
        plan = self.served.site.plan
        return {
            "leader": True,
            "rebalancing": False,
            "recovering": not self.served.store.ready,
            "assignment": {"actives": {t.name: list(range(t.partitions)) for t in plan.topics}, "standbys": {}},
            "table_metadata": {table.name: {"changelog": table.changelog} for table in plan.tables},
            "app": plan.application,
            **self.served.status().plain,
        }

    def _user(self, http: HttpRequest) -> str | None:
        if not self.access.behind_proxy:
            return None
        return next((http.headers[name] for name in _FORWARDED if name in http.headers), None)


_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


@contextlib.asynccontextmanager
async def _running(served: Served) -> AsyncIterator[None]:
    served.start()
    try:
        yield
    finally:
        await to_thread.run_sync(served.close)


def _path(scope: Scope) -> str:
    """The path below the prefix under which a proxy shows the server. Raises ValueError for one that is not UTF-8."""
    raw = bytes(scope.get("raw_path") or quote(scope["path"]).encode()).split(b"?")[0]
    root = quote(str(scope.get("root_path", "")).rstrip("/")).encode()
    return decoded(raw.removeprefix(root) if raw.startswith(root + b"/") else raw)


def _response(answer: Answer, *, head: bool) -> Response:
    response = Response(b"" if head else answer.body, status_code=answer.status)
    response.raw_headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    if answer.status not in {204, 304}:
        response.raw_headers.append((b"content-length", str(len(answer.body)).encode()))
    return response
