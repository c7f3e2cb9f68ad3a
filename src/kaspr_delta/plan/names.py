"""Delta names of resources: one rule for all, so that a name in SQL can be guessed."""

from __future__ import annotations

import re
from collections.abc import Callable


def delta_name(name: str) -> str:
    """The Delta name of a resource: lower case, everything but ``a-z0-9_`` becomes ``_``.

    >>> delta_name("Orders-Products.Join")
    'orders_products_join'
    """
    return re.sub(r"[^a-z0-9_]", "_", name.lower())


INTERNAL_SCHEMA_MARK = "_kaspr_internal_schema"
"""The view beside results that names the schema of the internal tables, where that is another one."""

_internal = ["_kaspr_"]


def _beginning_with(prefix: str, *, internal: bool = False) -> Callable[[str], str]:
    if internal:
        _internal.append(prefix)
    return lambda name: f"{prefix}{delta_name(name)}"


topic_table = _beginning_with("topic__")
"""The Delta table of a topic."""
ingest_table = _beginning_with("ingest__", internal=True)
"""The log of the reader of a topic that is bound as input."""
export_table = _beginning_with("export__", internal=True)
"""The log of the writer of a topic that is bound as output."""
_CHANNEL = "channel__"
channel_table = _beginning_with(_CHANNEL)
"""The Delta table of a channel, which is the log of its join."""
records_view = _beginning_with("records__")
"""The view of a channel's records, beside results, where its table lies among internal ones."""
log_table = _beginning_with("log__", internal=True)
"""The log of an agent's effects."""
task_table = _beginning_with("task__", internal=True)
"""The log of a task's effects."""
subscriptions_table = _beginning_with("subscriptions__", internal=True)
"""The subscriptions of a join."""
waiting_table = _beginning_with("waiting__", internal=True)
"""The records of a stream that wait for their row in a table."""
index_table = _beginning_with("index__", internal=True)
"""The foreign keys of a right table's rows."""
buffer_table = _beginning_with("buffer__", internal=True)
"""The records of two streams that other records may still match."""
aggregation_table = _beginning_with("aggregation__", internal=True)
"""The log of a table with a ``from``."""
contributions_table = _beginning_with("contributions__", internal=True)
"""The contribution of each row of another table to a table that is made from it."""
group_times_table = _beginning_with("group_times__", internal=True)
"""The times of groups of a table that is made from another one: groups whose time moved and whose value did not."""
differences_table = _beginning_with("differences__")
"""The rows of a result that a rebuild would add, remove or change: beside the result, for people."""
shown_table = _beginning_with("shown__", internal=True)
"""The rows of a new result that the current view shows in place of those of the result; empty: it shows the result."""
current_view = _beginning_with("current__")
"""The view of a result whose changed definition is compared: it shows the result, or the new one."""
windows_table = _beginning_with("windows__", internal=True)
"""The windows of a table that shows a window only when it closes."""
value_view = _beginning_with("v_")
"""The view of a table or result with VARIANT columns."""


_INTERNAL = tuple(_internal)


def is_internal(table: str) -> bool:
    """Whether a table is nobody's but the engine's: state, a log that is no channel, or one of the system's own.

    >>> is_internal("log__prices"), is_internal("channel__priced"), is_internal("orders")
    (True, False, False)
    """
    return table.startswith(_INTERNAL) and table != INTERNAL_SCHEMA_MARK


def is_channel(table: str) -> bool:
    """Whether a table is a channel, by its name."""
    return table.startswith(_CHANNEL)


def is_in_internal_schema(table: str) -> bool:
    """Whether a table lies in the schema of internal tables, if there is one.

    Channels lie there too: of these only the records are for others, see ``records_view``.

    >>> is_in_internal_schema("log__prices"), is_in_internal_schema("channel__priced"), is_in_internal_schema("orders")
    (True, True, False)
    """
    return is_internal(table) or is_channel(table)


def application_id(application: str) -> str:
    """Kaspr's application id, the prefix of every topic it generates."""
    return f"{application}-app"


def changelog_topic(application: str, table: str) -> str:
    """Kaspr's name of a table's changelog topic."""
    return f"{application_id(application)}-{table}-changelog"


def default_channel(join: str) -> str:
    """The channel of a join without an ``outputChannel``."""
    return f"{join}-channel"
