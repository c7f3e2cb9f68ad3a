"""Passwords, read from the environment or from a Databricks secret scope. They are never stored."""

from __future__ import annotations

import base64
import os

from kaspr_delta.errors import SetupError
from kaspr_delta.extras import required
from kaspr_delta.plan.definition.bindings import SecretPlan


def password_of(secret: SecretPlan) -> str:
    """The password, from the environment variable if that is set, else from the secret scope. Raises SetupError."""
    given = os.environ.get(secret.environment)
    if given is not None:
        return given
    if secret.scope is None or secret.key is None:
        raise SetupError(f"the environment variable {secret.environment} is not set, and should hold a password")
    if "DATABRICKS_RUNTIME_VERSION" not in os.environ and "DATABRICKS_HOST" not in os.environ:
        raise SetupError(
            f"the password {secret.key!r} of secret {secret.scope!r} is not here: set the environment variable"
            f" {secret.environment}; on Databricks it comes from the secret scope of that name"
        )
    return _from_databricks(secret.scope, secret.key)


def _from_databricks(scope: str, key: str) -> str:
    with required():
        from databricks.sdk import WorkspaceClient
        from databricks.sdk.errors.base import DatabricksError
    try:
        value = WorkspaceClient().secrets.get_secret(scope, key).value
    except (DatabricksError, ValueError) as error:  # ValueError: no credentials were found
        raise SetupError(f"the secret {key!r} of scope {scope!r} cannot be read: {error}") from error
    return base64.b64decode(value or "").decode()
