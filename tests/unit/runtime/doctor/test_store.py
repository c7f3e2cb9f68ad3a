"""The probes of a store: over obstore's memory, and over servers that refuse or do not answer."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kaspr_delta.errors import SetupError
from kaspr_delta.runtime.doctor.store import CLEANED, PROBES, REACH, StoreBench, clock, examine_store
from kaspr_delta.storage import folders
from kaspr_delta.storage.folders import BucketFolder, Stamp
from kaspr_delta.storage.namespace import Warehouse
from tests.buckets import keep_buckets_in_memory
from tests.documented import ROOT
from tests.ports import free_port
from tests.unit.cli.conftest import Kaspr, kaspr

__all__ = ["kaspr"]
SECRET = "secret-4711"  # noqa: S105  the servers take any
WAREHOUSE = Warehouse("s3://bucket/wh")
pytest.importorskip("obstore")


@contextlib.contextmanager
def refusing(status: int, code: str) -> Iterator[str]:
    """A server that answers each request with an error."""
    body = f"<Error><Code>{code}</Code><Message>key {SECRET}</Message></Error>".encode()

    class Handler(BaseHTTPRequestHandler):
        def refuse(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = refuse  # noqa: N815  names of the library

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    opened = folders._opened
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    for name, value in (("ACCESS_KEY_ID", "key"), ("SECRET_ACCESS_KEY", SECRET), ("REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    yield
    opened.cache_clear()  # stores of servers that are gone


def reach(kaspr: Kaspr, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> str:
    """The line of a doctor that does not reach the store, in less than half a minute; other probes are not asked."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("COLUMNS", "400")
    folders._opened.cache_clear()
    began = time.monotonic()
    answer = kaspr("doctor", "--warehouse", WAREHOUSE.text)
    assert time.monotonic() - began < 30
    assert answer.code == 1
    assert "Traceback" not in answer.out + answer.err
    assert SECRET not in answer.out + answer.err
    asked = [line for line in answer.out.splitlines() if line.split()[0] in {"store", "write", "clock", "clean-up"}]
    (line,) = asked
    assert line.split()[1] == "problem"
    assert "nothing runs" in line
    return line


@pytest.mark.parametrize(
    ("status", "code", "sentence"),
    [
        (403, "AccessDenied", "refuses access (AccessDenied): these credentials need to list, read, write and remove"),
        (403, "InvalidAccessKeyId", "refuses the credentials (InvalidAccessKeyId): check AWS_ACCESS_KEY_ID"),
        (403, "RequestTimeTooSkewed", "refuses requests because the clock of this machine is wrong: set it"),
        (404, "NoSuchBucket", "has no bucket bucket. Create it, or name another one"),
        (301, "PermanentRedirect", "is in another region: set AWS_REGION to that of the bucket"),
    ],
)
def test_a_store_that_refuses_is_one_sentence(
    kaspr: Kaspr, monkeypatch: pytest.MonkeyPatch, status: int, code: str, sentence: str
) -> None:
    with refusing(status, code) as endpoint:
        assert sentence in reach(kaspr, monkeypatch, endpoint)


def test_a_store_that_is_busy_is_told_by_its_code_or_with_an_old_obstore_by_the_status(
    kaspr: Kaspr, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refusing(503, "SlowDown") as endpoint:
        line = reach(kaspr, monkeypatch, endpoint)
    assert re.search(r"cannot be reached or refuses: (SlowDown|.* 503 Service Unavailable)", line)


@pytest.mark.parametrize(("status", "code"), [(403, "AccessDenied"), (404, "NoSuchBucket")])
def test_other_commands_say_the_same(kaspr: Kaspr, monkeypatch: pytest.MonkeyPatch, status: int, code: str) -> None:
    with refusing(status, code) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        answer = kaspr("status", "--warehouse", WAREHOUSE.text)
    assert (answer.code, answer.out, len(answer.err.strip().splitlines())) == (1, "", 1)
    assert SECRET not in answer.err
    assert "Traceback" not in answer.err


def test_a_store_that_is_away_is_one_sentence(kaspr: Kaspr, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    assert f"cannot be reached: {endpoint} does not answer" in reach(kaspr, monkeypatch, endpoint)


def test_a_store_that_takes_connections_and_says_nothing_is_one_sentence(
    kaspr: Kaspr, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert f"cannot be reached: {endpoint} does not answer" in reach(kaspr, monkeypatch, endpoint)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_buckets_in_memory(monkeypatch)


@pytest.mark.usefixtures("memory")
def test_a_store_as_it_should_be_has_no_problem_and_nothing_is_left() -> None:
    found = {probe.name: answer for probe, answer in examine_store(WAREHOUSE, 20)}
    assert [*found] == ["store", *(probe.name for probe in PROBES), "clean-up"]
    assert {answer.grade for answer in found.values()} == {"ok"}
    assert all(answer.effect for answer in found.values())
    assert BucketFolder(WAREHOUSE.folder, seconds=1).files() == {}


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize(
    ("verb", "wrong", "probe", "seen"),
    [
        ("write_if_absent", lambda *_: True, "conditional create", "the store has no conditional PUT"),
        ("write_if_absent", lambda *_: False, "conditional create", "refuses to create a file that is missing"),
        ("names", lambda *_: [], "list after write", "does not list a file that was written before"),
        ("remove", lambda *_: None, "list after write", "lists a file that was removed before"),
        ("read", lambda *_: b"old", "overwrite", "has another content than was written"),
        ("read", lambda *_: b"old", "read", "has another content than was written"),
    ],
)
def test_each_probe_finds_a_store_that_does_otherwise(
    monkeypatch: pytest.MonkeyPatch, verb: str, wrong: object, probe: str, seen: str
) -> None:
    monkeypatch.setattr(BucketFolder, verb, wrong)
    found = {one.name: answer for one, answer in examine_store(WAREHOUSE, 20)}
    assert found[probe].grade == "problem"
    assert seen in found[probe].seen
    assert found[probe].effect == next(one.otherwise for one in PROBES if one.name == probe)


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize(
    ("store", "said"),
    [
        (1_000.0, "no difference"),
        (999.0, "no difference"),
        (1_010.0, "10.0 s ahead of this machine"),
        (989.0, "10.0 s behind this machine"),
        (1_300.0, "the store's clock is 300.0 s ahead of this machine"),
        (699.0, "the store's clock is 300.0 s behind this machine"),
    ],
)
def test_clocks_are_compared_as_far_as_whole_seconds_tell(
    monkeypatch: pytest.MonkeyPatch, store: float, said: str
) -> None:
    monkeypatch.setattr(BucketFolder, "stamp", lambda *_: Stamp(store, ""))
    bench = StoreBench(BucketFolder(WAREHOUSE.folder, seconds=1), clock=lambda: 1_000.0)
    try:
        found = clock(bench)
    except SetupError as error:
        found = str(error)
    assert found == said


def test_the_page_of_buckets_has_each_probe() -> None:
    page = (ROOT / "docs" / "buckets.md").read_text().replace("`_kaspr_doctor`", "_kaspr_doctor")
    for probe in (REACH, *PROBES, CLEANED):
        assert f"| {probe.name} | {probe.question} | {probe.then} | {probe.otherwise} |" in page
