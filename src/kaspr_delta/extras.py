"""The packages of the optional extras, which the wheel does not bring along."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kaspr_delta.errors import SetupError

_EXTRAS = {
    **dict.fromkeys(("pyspark", "delta", "deltalake", "pandas"), "local"),
    **dict.fromkeys(("starlette", "uvicorn", "anyio", "jinja2", "prometheus_client"), "serve"),
    "databricks": "databricks",
    "obstore": "s3",
}
# The names of packages that are not those of their modules.
_PACKAGES = {"delta": "delta-spark", "databricks": "databricks-sdk"}


@contextmanager
def required() -> Iterator[None]:
    """Raise SetupError, which says what to install, if a package of an extra cannot be imported."""
    try:
        yield
    except ImportError as error:
        module = (error.name or "").partition(".")[0]
        if module not in _EXTRAS:
            raise
        package, extra = _PACKAGES.get(module, module), _EXTRAS[module]
        raise SetupError(f"{package} is not installed: pip install 'kaspr-delta[{extra}]'") from error
