"""A web application on a real HTTP server of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
import time
from collections.abc import Iterator

import httpx
import uvicorn

from kaspr_delta.web.asgi import WebApplication
from kaspr_delta.web.server import Address, listener_at

# Trusts nobody, and is made at once: the certificates that a client loads otherwise are not needed here.
_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class _Server(uvicorn.Server):
    """It looks more often than every tenth of a second whether it should end."""

    async def main_loop(self) -> None:
        ended = False
        while not ended:
            await asyncio.sleep(0.01)
            ended = await self.on_tick(0)


@contextlib.contextmanager
def served_by_uvicorn(application: WebApplication, *, root_path: str = "") -> Iterator[httpx.Client]:
    """Serve an application in a thread until the block ends. Yields a client of the server."""
    with listener_at(Address(port=0)) as listener:
        server = _Server(uvicorn.Config(application, log_config=None, lifespan="on", root_path=root_path))
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
