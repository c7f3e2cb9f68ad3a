"""Serving an application over HTTP until stopped."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaspr_delta.control.documents import Document
from kaspr_delta.errors import UsageError
from kaspr_delta.extras import required
from kaspr_delta.settings import APP_PORT_VARIABLE
from kaspr_delta.storage.namespace import Namespace
from kaspr_delta.storage.opening import folder_tables

if TYPE_CHECKING:
    from kaspr_delta.web.asgi import WebApplication


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. ``root_path`` is the prefix under which a proxy shows the server."""

    host: str = "127.0.0.1"
    port: int = 8080
    root_path: str = ""
    behind_proxy: bool = False


def web_application(  # noqa: PLR0913  most are options of `serve`
    namespace: Namespace,
    *,
    app: str | None = None,
    documents: list[Document] | None = None,
    sql_warehouse: str = "",
    token: str = "",
    behind_proxy: bool = False,
) -> WebApplication:
    """The ASGI application of the manifests applied to a namespace, or of given documents. Its lifespan closes all.

    ``app`` names the application, where the schema of a catalog has several. Tables that are not on this machine are
    read through the Databricks SQL warehouse with this id. Raises SetupError without the packages of the extra
    ``serve``, UsageError if a SQL warehouse is needed and none is given, and NotFoundError if there is no such
    application.
    """
    with required():
        from kaspr_delta.web.access import Access
        from kaspr_delta.web.asgi import WebApplication
        from kaspr_delta.web.pages import Pages
        from kaspr_delta.web.served import Served
        from kaspr_delta.web.store import LocalStore
    access = Access(token, behind_proxy)
    local = folder_tables(namespace)
    if local is not None:
        store = LocalStore(local)
        served = Served(store, namespace.name, documents)
        return WebApplication(served, access, Pages(store, None, served.traffic, served.lags, bool(token)))
    if not sql_warehouse:
        raise UsageError(
            f"the tables of {namespace.schema} are not on this machine: name a SQL warehouse with --sql-warehouse"
        )
    from databricks.sdk import WorkspaceClient

    from kaspr_delta.storage.warehouse.sql_warehouse import SqlWarehouse
    from kaspr_delta.web.warehouse_store import WarehouseStore, client_of_visitor

    warehouse = SqlWarehouse(WorkspaceClient(), sql_warehouse, namespace)
    # A proxy other than that of Databricks Apps may send a token that is not for this workspace.
    as_visitor = client_of_visitor(warehouse.client.config.host) if APP_PORT_VARIABLE in os.environ else None
    over = WarehouseStore(warehouse, as_visitor)
    served = Served(over, app, documents)
    return WebApplication(served, access, Pages(over, documents, served.traffic, served.lags, bool(token)))


def listener_at(address: Address) -> socket.socket:
    """A socket that listens. Raises UsageError for an address that cannot be listened at."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listener = socket.create_server((address.host, address.port), family=family, backlog=1_024)
    except OSError as error:
        raise UsageError(f"cannot listen at {address.host}:{address.port}: {error.strerror}") from error
    # Connections inherit it. Without it the body of an answer waits 40 ms until the client acknowledges the headers.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def serve(application: WebApplication, address: Address, listening: Callable[[int], None]) -> None:
    """Answer requests until SIGTERM or SIGINT; those under way are finished. ``listening`` is called with the port.

    Raises UsageError for an address that cannot be listened at.
    """
    import uvicorn

    listener = listener_at(address)
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises them again when it has ended
        signal.signal(number, lambda *_: None)
    config = uvicorn.Config(
        application,
        root_path=address.root_path,
        proxy_headers=address.behind_proxy,
        forwarded_allow_ips="*" if address.behind_proxy else None,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=10,
        lifespan="on",
    )
    with listener:
        listening(listener.getsockname()[1])
        uvicorn.Server(config).run(sockets=[listener])
