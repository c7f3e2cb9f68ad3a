"""A server before an S3 server that notes each request. One that loses answers is built on it."""

from __future__ import annotations

import http.client
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from typing_extensions import Self

_COMMIT = re.compile(r"/_delta_log/\d{20}\.json$")
_OF_ONE_CONNECTION = {"transfer-encoding", "connection", "content-length"}


class Request(NamedTuple):
    """A request: its method, or LIST or DELETE of several, its key in the bucket or the prefix, and its query."""

    method: str
    key: str
    query: str = ""

    @classmethod
    def of(cls, method: str, path: str) -> Request:
        parts = urlsplit(path)
        _, _, key = unquote(parts.path).lstrip("/").partition("/")
        asked = parse_qs(parts.query, keep_blank_values=True)
        if method == "GET" and "list-type" in asked:
            return cls("LIST", asked.get("prefix", [""])[0], parts.query)
        return cls("DELETE" if method == "POST" and "delete" in asked else method, key, parts.query)

    @property
    def is_commit(self) -> bool:
        """Whether it writes a commit of a table."""
        return self.method == "PUT" and _COMMIT.search(self.key) is not None


class Proxy:
    """Forwards requests to a server and notes them, in the order of their arrival."""

    def __init__(self, endpoint: str) -> None:
        self.target = urlsplit(endpoint).netloc
        self.requests: list[Request] = []

    def loses(self, request: Request) -> bool:  # noqa: ARG002
        """Whether the answer to a request, which was made, does not arrive."""
        return False

    def refuses(self, request: Request) -> bool:  # noqa: ARG002
        """Whether a request fails with an error of the server, and is not made."""
        return False

    def taken(self) -> list[Request]:
        """The requests since this was asked before."""
        found, self.requests = self.requests, []
        return found

    @contextmanager
    def serving(self) -> Iterator[tuple[str, Self]]:
        """The address of this server while it runs, and this server."""
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def forward(self) -> None:
                request = Request.of(self.command, self.path)
                proxy.requests.append(request)
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if proxy.refuses(request):
                    self.send_response_only(500)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                onward = http.client.HTTPConnection(proxy.target)
                onward.request(self.command, self.path, body, dict(self.headers))
                answer = onward.getresponse()
                content = answer.read()
                onward.close()
                if proxy.loses(request):
                    self.close_connection = True
                    return
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in _OF_ONE_CONNECTION:
                        self.send_header(name, value)
                length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
                self.send_header("Content-Length", length or "0")
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = forward  # noqa: N815  names of the library

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 128

            def handle_error(self, *_: object) -> None:
                """A client need not read an answer to its end."""

        with Server(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_address[1]}", self
            server.shutdown()


def by_caller(requests: list[Request], root: str) -> Counter[tuple[str, str, str]]:
    """The number of requests by table or folder in a schema, by kind of file, and by method."""
    return Counter((*_place(request.key.removeprefix(f"{root}/")), request.method) for request in requests)


def _place(key: str) -> tuple[str, str]:
    table, _, inside = key.partition("/")
    if table == "_kaspr":
        return f"{table}/{inside.partition('/')[0]}", re.sub(r"\d+", "N", inside.partition("/")[2])
    if inside.startswith("_delta_log"):
        return table, re.sub(r"\d{20}", "N", inside)
    return table, "data" if inside else ""
