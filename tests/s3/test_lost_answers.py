"""A commit whose answer is lost is told from a lost race: it is there once."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kaspr_delta.storage.layout import RESULT
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.opening import folder_tables

COMMITS = 5
COMMIT = re.compile(r"/_delta_log/\d{20}\.json$")


@pytest.fixture
def lossy(endpoint: str) -> Iterator[tuple[str, Counter[str]]]:
    """A server before the other one that loses its first answer to each commit, and the number of PUTs of each."""
    puts = Counter[str]()

    class Lossy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            onward = http.client.HTTPConnection(urlsplit(endpoint).netloc)
            onward.request(self.command, self.path, body, dict(self.headers))
            answer = onward.getresponse()
            content = answer.read()
            onward.close()
            if self.command == "PUT" and COMMIT.search(self.path):
                puts[self.path] += 1
                if puts[self.path] == 1:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in {"transfer-encoding", "connection", "content-length"}:
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
            self.send_header("Content-Length", length or "0")
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = forward  # noqa: N815  names of the library

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Lossy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", puts
        server.shutdown()


@pytest.mark.slow
@pytest.mark.spark
def test_a_commit_of_spark_whose_answer_is_lost_is_made_once(
    warehouse: str, lossy: tuple[str, Counter[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = folder_tables(Warehouse(warehouse).namespace("contended"))
    assert tables is not None
    tables.ensure("rows", RESULT)
    address, puts = lossy
    with monkeypatch.context() as patched:
        patched.setenv("AWS_ENDPOINT_URL", address)
        appender = [sys.executable, str(Path(__file__).with_name("appender.py"))]
        done = subprocess.run([*appender, warehouse, "spark", str(COMMITS), "spark"], check=False)  # noqa: S603
    assert done.returncode == 0
    keys = sorted(row["key"] for row in tables.rows("rows", "SELECT key FROM t"))
    assert keys == [f"spark-{number}" for number in range(COMMITS)]
    assert list(puts.values()) == [2] * COMMITS
