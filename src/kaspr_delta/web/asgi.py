"""The server as an ASGI application: checks access, finds the view of a path, and answers its own paths."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote

import anyio
from anyio import to_thread
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from kaspr_delta.plan.definition.paths import decoded
from kaspr_delta.serde.json_lines import json_line
from kaspr_delta.web.access import Access, Visitor, is_from_elsewhere
from kaspr_delta.web.answer import JSON, Answer, Problem, problem
from kaspr_delta.web.open_api import document
from kaspr_delta.web.pages import RETRY, Pages
from kaspr_delta.web.request import Request
from kaspr_delta.web.served import Route, Served
from kaspr_delta.web.view import View

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

_log = logging.getLogger(__name__)
# Requests of one view that run at once: functions that hang block only their own view.
_AT_ONCE = 16
# Seconds beyond its time limit for which a view is still awaited: a function that waits outside Python may be late.
PATIENCE = 2.0
_BODY = 10 * 2**20
_FORM = 10_000


@dataclass
class WebApplication:
    """The application that an ASGI server such as uvicorn runs."""

    served: Served
    access: Access = field(default_factory=Access)
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
                answer = problem(500, "The server failed: its log has the cause.")
            self.served.metrics.answered(answer.status, time.monotonic() - started)
            answer = self._shown(HttpRequest(scope), answer)
            await _response(answer, head=scope["method"] == "HEAD")(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        self.served.start()
        try:
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
        finally:
            await to_thread.run_sync(self.served.close)
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, http: HttpRequest) -> Answer:
        try:
            path = _path(http.scope)
        except ValueError:
            return problem(400, "the path is not UTF-8", admitted=False)
        if path == "/healthz":
            return Answer.of(200, (), {"ready": self.served.store.ready})
        page = self.pages is not None and (path == "/" or _is_page(path))
        if not self.access.admits(http.headers.get("authorization"), page=page):
            ways = 'Bearer, Basic realm="kaspr-delta"' if page else "Bearer"
            challenge = [("www-authenticate", ways)]
            return problem(401, "a bearer token is needed", challenge, admitted=False)
        answer = await self._of_server(http, path)
        if answer is not None:
            return answer
        found = self.served.site.route(path)
        return await self._of_view(http, *found) if found else problem(404, "no web view answers this path")

    async def _of_server(self, http: HttpRequest, path: str) -> Answer | None:
        """The server's own answer at a path, if any. All its paths are read-only, except the retry of dead letters."""
        if self.pages is not None and path == RETRY and http.method == "POST":
            return await self._retry(http, self.pages)
        system = self._system(path, self.access.visitor(http))
        if system is not None and http.method in {"GET", "HEAD"}:
            return await to_thread.run_sync(system)
        if system is None:
            return None
        return problem(405, f"{path} is there to be read", [("allow", "GET, HEAD")])

    async def _of_view(self, http: HttpRequest, route: Route, parameters: dict[str, str]) -> Answer:
        methods = route.methods
        view = methods.get(http.method) or (methods.get("GET") if http.method == "HEAD" else None)
        if view is None:
            allowed = sorted({*methods, *(["HEAD"] if "GET" in methods else [])})
            text = f"{route.path.text} answers {', '.join(allowed)}"
            return problem(405, text, [("allow", ", ".join(allowed))])
        if isinstance(view, str):
            return problem(503, view)
        body = await _body(http, self.most_bytes)
        if isinstance(body, Answer):
            return body
        user, url = self.access.user(http), http.url
        request = Request(http.method, url.path, url.query, http.headers, parameters, body, user)
        started = time.monotonic()
        answer = await self._in_a_thread(view, request)
        self.served.traffic.answered(view.plan.name, answer.status, time.monotonic() - started)
        return answer

    async def _in_a_thread(self, view: View, request: Request) -> Answer:
        limit = self._limits.setdefault(view.plan.name, anyio.CapacityLimiter(_AT_ONCE))
        with anyio.move_on_after(view.timeout + PATIENCE):
            return await to_thread.run_sync(view.answer, request, limiter=limit, abandon_on_cancel=True)
        # By the type hints of older anyio this line is unreachable.
        return problem(504, f"{view.plan.ref} has not answered in time")  # type: ignore[unreachable, unused-ignore]

    async def _retry(self, http: HttpRequest, pages: Pages) -> Answer:
        if is_from_elsewhere(http):
            return problem(403, "another site sends this form")
        body = await _body(http, _FORM)
        if isinstance(body, Answer):
            return body
        form = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
        answer, sent = await to_thread.run_sync(pages.retry, self.served.site.plan, self.access.visitor(http), form)
        for topic, records in sent.items():
            self.served.metrics.sent(topic, records)
        return answer

    def _shown(self, http: HttpRequest, answer: Answer) -> Answer:
        """The answer as it is sent: a problem is a page below ``/ui`` and for browsers; strangers see no menu."""
        if self.pages is None or not isinstance(answer, Problem) or not _wants_page(http):
            return answer
        if answer.admitted:
            plan, visitor = self.served.site.plan, self.access.visitor(http)
            page = self.pages.problem(plan, visitor, answer.status, answer.detail)
        else:
            page = self.pages.bare(answer.status, answer.detail)
        further = (header for header in answer.headers if header[0] != "content-type")
        return replace(page, headers=(*page.headers, *further))

    def _system(self, path: str, visitor: Visitor) -> Callable[[], Answer] | None:
        """The server's own answer to a read of a path, if any. ``/`` leads to the pages if no view answers there."""
        pages, site = self.pages, self.served.site
        if pages is not None and path == "/" and site.route(path) is None:
            return lambda: Answer(307, (("location", f"{visitor.root}/ui/"),), b"")
        if pages is not None and _is_page(path):
            return lambda: pages.page(site.plan, path, visitor)
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
        """Kaspr's fields, and those of ``kaspr-delta status -o json``."""
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


_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


async def _body(http: HttpRequest, most: int) -> bytes | Answer:
    """The body of a request, or the answer 413 if it has more than ``most`` bytes."""
    body = bytearray()
    async for chunk in http.stream():
        body += chunk
        if len(body) > most:
            return problem(413, f"the body has more than {most} bytes", [("connection", "close")])
    return bytes(body)


def _is_page(path: str) -> bool:
    return path == "/ui" or path.startswith("/ui/")


def _wants_page(http: HttpRequest) -> bool:
    """Whether a problem is answered by a page: to a browser that opens an address, and below ``/ui``."""
    try:
        return _is_page(_path(http.scope)) or "text/html" in http.headers.get("accept", "")
    except ValueError:
        return "text/html" in http.headers.get("accept", "")


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
