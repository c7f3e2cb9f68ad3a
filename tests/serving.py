"""A web application on a real HTTP server of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
import time
import types
from collections.abc import Iterator
from unittest import mock

import httpx
import uvicorn

from kaspr_delta.web.asgi import WebApplication
from kaspr_delta.web.server import Address, listener_at

# Trusts nobody, and is made at once: the certificates that a client loads otherwise are not needed here.
_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
# With this in place of asyncio, the pauses of uvicorn, each a tenth of a second, are a tenth as long.
_SHORT_PAUSES = types.ModuleType("asyncio")
vars(_SHORT_PAUSES).update(vars(asyncio), sleep=lambda seconds: asyncio.sleep(seconds / 10))


@contextlib.contextmanager
def served_by_uvicorn(application: WebApplication, *, root_path: str = "") -> Iterator[httpx.Client]:
    """Serve an application in a thread until the block ends. Yields a client of the server."""
    with listener_at(Address(port=0)) as listener, mock.patch("uvicorn.server.asyncio", _SHORT_PAUSES):
        server = uvicorn.Server(uvicorn.Config(application, log_config=None, lifespan="on", root_path=root_path))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.01)
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with httpx.Client(base_url=url, timeout=20, verify=_NO_CERTIFICATES) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join(timeout=20)
