"""The packages of the optional extras, which the wheel does not bring along."""

from __future__ import annotations

from kaspr_delta.errors import SetupError

_EXTRAS = {
    **dict.fromkeys(("pyspark", "delta", "deltalake", "pandas"), "local"),
    **dict.fromkeys(("starlette", "uvicorn", "anyio", "jinja2", "prometheus_client"), "serve"),
    "databricks": "databricks",
}


def missing_extra(error: ImportError) -> SetupError | None:
    """The error that says what to install, if a package of an extra cannot be imported."""
    package = (error.name or "").partition(".")[0]
    extra = _EXTRAS.get(package)
    return None if extra is None else SetupError(f"{package} is not installed: pip install 'kaspr-delta[{extra}]'")
