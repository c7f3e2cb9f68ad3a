"""The doctor of a bucket on a real server, also on one of which each tenth request fails."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator

import pytest

from kaspr_delta.storage.folders import BucketFolder
from tests.s3.conftest import SECRET
from tests.s3.counting import Proxy, Request
from tests.s3.test_order_enrichment import program


class Failing(Proxy):
    """Answers each tenth request with an error of the server, and does not pass it on."""

    def refuses(self, request: Request) -> bool:  # noqa: ARG002
        return len(self.requests) % 10 == 0


@pytest.fixture
def failing(endpoint: str) -> Iterator[tuple[str, Failing]]:
    with Failing(endpoint).serving() as served:
        yield served


def doctor(warehouse: str, **environment: str) -> dict[str, dict[str, str]]:
    """The answers of the probes of the store, by their names."""
    command = program(warehouse, "doctor", "-o", "json")
    done = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=60
    )
    assert SECRET not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return {one["probe"]: one for one in json.loads(done.stdout)["answers"] if "question" in one}


def test_all_probes_of_a_real_server_are_answered_and_nothing_is_left(warehouse: str) -> None:
    found = doctor(warehouse)
    assert len(found) == 8
    assert {name: one["answer"] for name, one in found.items() if one["answer"] != "ok"} == {}
    assert all(one["seen"] and one["effect"] for one in found.values())
    assert BucketFolder(warehouse).files() == {}


def test_a_server_of_which_each_tenth_request_fails_is_asked_again(
    warehouse: str, failing: tuple[str, Failing]
) -> None:
    address, proxy = failing
    found = doctor(warehouse, AWS_ENDPOINT_URL=address)
    assert len(proxy.requests) > 50
    assert {name: one["answer"] for name, one in found.items() if one["answer"] != "ok"} == {}


def test_a_missing_bucket_of_a_real_server_is_one_sentence(endpoint: str) -> None:
    found = doctor("s3://no-such-bucket/wh")
    assert [*found] == ["store"]
    expected = f"s3://no-such-bucket/wh cannot be reached: {endpoint} has no bucket no-such-bucket."
    assert found["store"]["seen"].startswith(expected)
