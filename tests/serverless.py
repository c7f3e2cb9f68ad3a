"""The restrictions of Databricks serverless compute, for a local Spark Connect server.

The client checks requests before it sends them: in the process of the tests, and in the Python processes of the
server. Databricks documents the restrictions in "Serverless compute limitations" (triggers, caches, global temporary
views, one gigabyte for custom code) and in "Set Spark configuration properties" (settings).
"""

from __future__ import annotations

import re
import resource
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.connect.proto import Catalog, Command, Plan

SETTINGS_ALLOWED = frozenset(
    {
        "spark.databricks.execution.timeout",
        "spark.sql.ansi.enabled",
        "spark.sql.files.maxPartitionBytes",
        "spark.sql.legacy.timeParserPolicy",
        "spark.sql.session.timeZone",
        "spark.sql.shuffle.partitions",
    }
)
"""The settings that a session may change."""
WORKER_MEMORY = 1 << 30
"""The most bytes of memory that a Python process of the server may use."""

_BATCH_WORKER = "foreach_batch_worker"


def _begins(statement: str) -> re.Pattern[str]:
    return re.compile(r"\s*" + statement, re.IGNORECASE | re.DOTALL)


# The beginning of a SQL statement, and its name in errors of serverless compute.
_STATEMENTS = (
    (_begins(r"CACHE\b.*\bAS\b"), "CACHE TABLE AS SELECT"),
    (_begins(r"CACHE\b"), "CACHE TABLE"),
    (_begins(r"UNCACHE\b"), "UNCACHE TABLE"),
    (_begins(r"CLEAR\s+CACHE\b"), "CLEAR CACHE"),
)
_VIEW = _begins(r"CREATE\s+(?:OR\s+REPLACE\s+)?(GLOBAL\s+)?TEMP(?:ORARY)?\s+VIEW\s+(?:IF\s+NOT\s+EXISTS\s+)?([\w`.]+)")
_SET = _begins(r"SET\s+(?!TIME\s+ZONE|VAR)`?([\w.]+)")
_RESET = _begins(r"RESET\b\s*`?([\w.]*)")
_CACHES = {
    "cache_table": "CACHE TABLE",
    "uncache_table": "UNCACHE TABLE",
    "clear_cache": "CLEAR CACHE",
    "is_cached": "IS CACHED",
    "drop_global_temp_view": "GLOBAL TEMPORARY VIEW",
}
_ANALYSES = {"persist": "PERSIST TABLE", "unpersist": "UNPERSIST TABLE", "get_storage_level": "STORAGE LEVEL"}


def apply_serverless_restrictions() -> None:
    """Patch the client of this process: requests that serverless compute refuses raise AnalysisException."""
    from pyspark.sql.connect.client import SparkConnectClient

    def before(name: str, check: Callable[..., None]) -> None:
        request = getattr(SparkConnectClient, name)

        def checked_request(self: Any, *given: Any, **named: Any) -> Any:
            check(next(iter((*given, *named.values()))))
            return request(self, *given, **named)

        setattr(SparkConnectClient, name, checked_request)

    before("config", _settings)
    before("_analyze", lambda method: _not_supported(_ANALYSES.get(method)))
    before("_execute", lambda request: _plan(request.plan))
    before("_execute_and_fetch_as_iterator", lambda request: _plan(request.plan))


def begin_worker() -> None:
    """Give a Python process of the server the limits of serverless compute. Called when its interpreter starts.

    The limit is on private writable memory. Linux cannot limit resident memory, and a limit on the address space is of
    no use: libraries reserve 1.7 GB of it before they read a row, and use a tenth of that.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (WORKER_MEMORY, WORKER_MEMORY))
    # The other workers, which run functions, are forked and send no requests.
    if any(_BATCH_WORKER in argument for argument in sys.orig_argv):
        apply_serverless_restrictions()


def _settings(operation: Any) -> None:
    changed = [pair.key for pair in operation.set.pairs] if operation.HasField("set") else []
    for name in [*changed, *operation.unset.keys]:
        _setting(name)


def _setting(name: str) -> None:
    if name not in SETTINGS_ALLOWED:
        _refuse("CONFIG_NOT_AVAILABLE", f"Configuration {name} is not available.", "42K0I")


def _plan(plan: Plan) -> None:
    if plan.HasField("command"):
        _command(plan.command)
    elif plan.root.HasField("catalog"):
        _catalog(plan.root.catalog)


def _command(command: Command) -> None:
    if command.HasField("write_stream_operation_start"):
        start = command.write_stream_operation_start
        if not start.available_now:
            kind = start.WhichOneof("trigger") or "ProcessingTime"
            text = f"Trigger type {kind} is not supported for this cluster type. Use a different trigger type"
            _refuse("INFINITE_STREAMING_TRIGGER_NOT_SUPPORTED", f"{text} e.g. AvailableNow, Once.", "0A000")
    elif command.HasField("create_dataframe_view"):
        view = command.create_dataframe_view
        _view(view.name, of_all_sessions=view.is_global)
    elif command.HasField("checkpoint_command"):
        _not_supported("CHECKPOINT")
    elif command.HasField("sql_command"):
        sql = command.sql_command
        _statement(sql.input.sql.query or sql.sql)


def _catalog(catalog: Catalog) -> None:
    _not_supported(_CACHES.get(catalog.WhichOneof("cat_type") or ""))


def _statement(sql: str) -> None:
    for beginning, operation in _STATEMENTS:
        if beginning.match(sql):
            _not_supported(operation)
    view = _VIEW.match(sql)
    if view is not None:
        _view(view[2], of_all_sessions=view[1] is not None)
    setting = _SET.match(sql) or _RESET.match(sql)
    if setting is not None:
        _setting(setting[1])


def _view(name: str, *, of_all_sessions: bool) -> None:
    """Refuse a view. Serverless creates it, but its batches, unlike this server's, run in a session without it."""
    if of_all_sessions:
        _not_supported("GLOBAL TEMPORARY VIEW")
    _refuse("TABLE_OR_VIEW_NOT_FOUND", f"The temporary view {name} cannot be found where batches run.", "42P01")


def _not_supported(operation: str | None) -> None:
    if operation is not None:
        _refuse("NOT_SUPPORTED_WITH_SERVERLESS", f"{operation} is not supported on serverless compute.", "0A000")


def _refuse(condition: str, text: str, state: str) -> None:
    from pyspark.errors.exceptions.connect import AnalysisException

    raise AnalysisException(f"[{condition}] {text} SQLSTATE: {state}", errorClass=condition)
