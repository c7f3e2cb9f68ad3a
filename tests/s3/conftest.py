"""A real S3 server on loopback: moto's, in a process of its own. `make test-s3` installs it."""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator

import pytest

from kaspr_delta.storage import folders
from tests.ports import free_port

SERVER = os.environ.get("KASPR_DELTA_S3_SERVER") or shutil.which("moto_server")
SECRET = "secret-4711"  # noqa: S105  the server takes any


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """The address of a server with a bucket ``bucket``, which the environment names."""
    pytest.importorskip("obstore")
    if SERVER is None:
        pytest.skip("no S3 server: make test-s3, or name moto_server with KASPR_DELTA_S3_SERVER")
    port = free_port()
    process = subprocess.Popen(  # noqa: S603
        [SERVER, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not _made(port):
            assert process.poll() is None
            time.sleep(0.1)
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
            patched.setenv("AWS_ACCESS_KEY_ID", "key")
            patched.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
            patched.setenv("AWS_REGION", "us-east-1")
            folders._opened.cache_clear()  # those of earlier servers
            yield f"http://127.0.0.1:{port}"
        folders._opened.cache_clear()
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def warehouse(endpoint: str) -> str:  # noqa: ARG001
    """A new warehouse in the bucket."""
    return f"s3://bucket/{uuid.uuid4().hex}"


def _made(port: int) -> bool:
    """Whether the server made the bucket."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("PUT", "/bucket")
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()
