"""The Databricks App that answers the web views of an application.

It reads the tables through a SQL warehouse, and runs the command that serves them on a laptop.
"""

from __future__ import annotations

import hashlib
import re
import shlex

from databricks.bundles.apps import App, AppPermission, AppPermissionLevel

from kaspr_delta.grant import READER, Grant
from kaspr_delta.jobs.deployment import Deployment
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import sends_of
from kaspr_delta.settings import SQL_WAREHOUSE_VARIABLE, WAREHOUSE_VARIABLE

_SQL_WAREHOUSE = "sql-warehouse"
# The number of characters that Databricks allows in an App's name.
_LONGEST_NAME = 30
# Nothing reads it: it changes the App.
_REVISION = "KASPR_DELTA_REVISION"


def has_web_views(plan: Plan) -> bool:
    """Whether the plan has web views to serve, ready or waiting."""
    return bool(plan.web_views) or any(ref.kind == "webview" for ref, _ in plan.waiting)


def web_app(plan: Plan, deployment: Deployment, warehouse: str, revision: str) -> App:
    """The App that serves the web views. ``warehouse`` holds the application's tables.

    A deployment gives an App its files only if the App itself has changed: the ``revision`` of manifests and code is in
    its environment.
    """
    return App.from_dict(
        {
            "name": app_name(plan.application, deployment.target, deployment.developer),
            "description": f"Web views of the Kaspr application {plan.application}",
            # The bundle's root, where the manifests are and, if it has them, the sources or the wheel of the package.
            "source_code_path": "${workspace.file_path}",
            "config": {
                "command": ["sh", "-c", _command(plan, deployment)],
                "env": [
                    {"name": WAREHOUSE_VARIABLE, "value": warehouse},
                    {"name": SQL_WAREHOUSE_VARIABLE, "value_from": _SQL_WAREHOUSE},
                    {"name": _REVISION, "value": revision},
                ],
            },
            "resources": [
                {"name": _SQL_WAREHOUSE, "sql_warehouse": {"id": deployment.sql_warehouse, "permission": "CAN_USE"}}
            ],
            "user_api_scopes": ["sql"] if deployment.read_as_visitor else [],
            "lifecycle": {"started": True},
            "permissions": [
                *(AppPermission(level=AppPermissionLevel.CAN_USE, **one.grantee) for one in deployment.viewers),
                *(AppPermission(level=AppPermissionLevel.CAN_MANAGE, **one.grantee) for one in deployment.operators),
            ],
        }
    )


def app_grant(key: str, plan: Plan) -> Grant:
    """The privileges on the schema for the App with this key in the bundle.

    The App acts as a service principal that Databricks creates with it. If web views send, the App appends to topics
    and creates topics that a function names.
    """
    sends = any(sends_of(view) for view in plan.web_views)
    return Grant(app_principal(key), (*READER, "MODIFY", "CREATE TABLE") if sends else READER)


def app_principal(key: str) -> str:
    """A reference to the service principal of the App with this key in the bundle."""
    return f"${{resources.apps.{key}.service_principal_client_id}}"


def app_name(application: str, target: str, developer: str = "") -> str:
    """A name that Databricks accepts: of the application, the target and the developer, joined by dashes.

    So ``a-b`` in the target ``c`` and ``a`` in ``b-c`` have one: the workspace refuses the second App.

    >>> app_name("order-system", "prod")
    'order-system-prod'
    """
    written = "-".join(filter(None, (application, target, developer.replace("_", "-"))))
    if re.fullmatch(r"[a-z0-9-]+", written) and len(written) <= _LONGEST_NAME:
        return written
    digest = hashlib.sha256(written.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^a-z0-9-]', '-', written.lower())[: _LONGEST_NAME - 9]}-{digest}"


def _command(plan: Plan, deployment: Deployment) -> str:
    """The shell command: install the packages, then serve on the port that Databricks gives."""
    install = shlex.join(["pip", "install", "--quiet", deployment.package.of_apps, *plan.python_packages])
    values = ["--values", f"{deployment.folder}/{deployment.values}"] if deployment.values else []
    serve = shlex.join(["kaspr-delta", "serve", deployment.folder, "--app", plan.application, *values])
    return f'{install} && exec {serve} --host 0.0.0.0 --port "$DATABRICKS_APP_PORT" --behind-proxy'
