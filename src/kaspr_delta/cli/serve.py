"""``kaspr-delta serve``: web views, status and metrics over HTTP."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Annotated

import typer

from kaspr_delta.cli.progress import note
from kaspr_delta.cli.target import Target
from kaspr_delta.settings import APP_PORT_VARIABLE, SQL_WAREHOUSE_VARIABLE
from kaspr_delta.storage.copying.mark import refuse_unfinished

TOKEN_VARIABLE = "KASPR_DELTA_TOKEN"  # noqa: S105  the name of a variable, not a token


def serve(
    target: Target,
    path: Annotated[Path | None, typer.Argument(help="Manifests to apply first: a file or a folder.")] = None,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N", help=f"Where to listen. [env var: {APP_PORT_VARIABLE}; default: 8080]", min=0, max=65535
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen at; 0.0.0.0 for all.")] = "127.0.0.1",
    root_path: Annotated[str, typer.Option(help="The prefix under which a proxy shows the server.")] = "",
    behind_proxy: Annotated[
        bool,
        typer.Option("--behind-proxy", help="Trust a proxy's headers: user, address, scheme."),
    ] = False,
    sql_warehouse: Annotated[
        str, typer.Option(metavar="ID", help=f"Reads tables of Unity Catalog. [env var: {SQL_WAREHOUSE_VARIABLE}]")
    ] = "",
) -> None:
    """Serve the web views of an application, pages at /ui/, /status/, /metrics and /openapi.json, until stopped.

    No resource runs here, and Spark is not started. Tables are read as they are; resources that are applied, changed
    or deleted meanwhile are noticed. Over Unity Catalog the manifests of PATH are not applied, but served as they are.
    With the environment variable KASPR_DELTA_TOKEN each request must bring that bearer token.

    For example:

        kaspr-delta serve bundles/event-counting --port 8080
    """
    from kaspr_delta.runtime.applying import apply_manifests, documents_in
    from kaspr_delta.web.server import Address, web_application
    from kaspr_delta.web.server import serve as serve_at

    location = target.location
    refuse_unfinished(location)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    chosen, documents = target.app, None
    if path is not None and location.is_unity:  # there, the server needs permission to read, not to write
        documents = documents_in(target.load(path), target.app)
    elif path is not None:
        outcomes, _ = apply_manifests(location, target.load(path), app=target.app, path=path)
        chosen = chosen or outcomes[0].application
    namespace = location.namespace(location.applied_schema(chosen))
    application = web_application(
        namespace,
        app=chosen,
        documents=documents,
        sql_warehouse=sql_warehouse or os.environ.get(SQL_WAREHOUSE_VARIABLE, ""),
        token=os.environ.get(TOKEN_VARIABLE, ""),
        behind_proxy=behind_proxy,
    )
    chosen_port = int(os.environ.get(APP_PORT_VARIABLE, "8080")) if port is None else port
    site = application.served.site.plan

    def listening(at: int) -> None:
        note(f"serving {site.application} at http://{host}:{at}{root_path}")
        for view in site.web_views:
            note(f"  {view.method} {view.path}  {view.description}".rstrip())

    serve_at(application, Address(host, chosen_port, root_path, behind_proxy), listening)
