"""A web application on a real HTTP server of this machine."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import httpx
import uvicorn

from kaspr_delta.web.asgi import WebApplication


@contextlib.contextmanager
def served_by_uvicorn(application: WebApplication, *, root_path: str = "") -> Iterator[httpx.Client]:
    """Serve an application in a thread until the block ends. Yields a client of the server."""
    with socket.socket() as bound_socket:
        bound_socket.bind(("127.0.0.1", 0))
        config = uvicorn.Config(application, log_config=None, lifespan="on", root_path=root_path)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound_socket]})
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.01)
            with httpx.Client(base_url=f"http://127.0.0.1:{bound_socket.getsockname()[1]}", timeout=20) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join(timeout=20)
