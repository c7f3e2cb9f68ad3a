"""Delta names of resources: one rule for all, so that a name in SQL can be guessed."""

from __future__ import annotations

import re


def delta_name(name: str) -> str:
    """The Delta name of a resource: lower case, everything but ``a-z0-9_`` becomes ``_``.

    >>> delta_name("Orders-Products.Join")
    'orders_products_join'
    """
    return re.sub(r"[^a-z0-9_]", "_", name.lower())


def topic_table(topic: str) -> str:
    """The Delta table of a topic."""
    return f"topic__{delta_name(topic)}"


def ingest_table(topic: str) -> str:
    """The log of the reader of a topic that is bound as input."""
    return f"ingest__{delta_name(topic)}"


def export_table(topic: str) -> str:
    """The log of the writer of a topic that is bound as output."""
    return f"export__{delta_name(topic)}"


def channel_table(channel: str) -> str:
    """The Delta table of a channel, which is the log of its join."""
    return f"channel__{delta_name(channel)}"


def log_table(agent: str) -> str:
    """The log of an agent's effects."""
    return f"log__{delta_name(agent)}"


def task_table(task: str) -> str:
    """The log of a task's effects."""
    return f"task__{delta_name(task)}"


def subscriptions_table(join: str) -> str:
    """The subscriptions of a join."""
    return f"subscriptions__{delta_name(join)}"


def waiting_table(join: str) -> str:
    """The records of a stream that wait for their row in a table."""
    return f"waiting__{delta_name(join)}"


def index_table(join: str) -> str:
    """The foreign keys of a right table's rows."""
    return f"index__{delta_name(join)}"


def buffer_table(join: str) -> str:
    """The records of two streams that other records may still match."""
    return f"buffer__{delta_name(join)}"


def aggregation_table(table: str) -> str:
    """The log of a table with a ``from``."""
    return f"aggregation__{delta_name(table)}"


def contributions_table(table: str) -> str:
    """The contribution of each row of another table to a table that is made from it."""
    return f"contributions__{delta_name(table)}"


def group_times_table(table: str) -> str:
    """The times of groups of a table that is made from another one: groups whose time moved and whose value did not."""
    return f"group_times__{delta_name(table)}"


def windows_table(table: str) -> str:
    """The windows of a table that shows a window only when it closes."""
    return f"windows__{delta_name(table)}"


def value_view(name: str) -> str:
    """The view of a table or result with VARIANT columns."""
    return f"v_{delta_name(name)}"


def application_id(application: str) -> str:
    """Kaspr's application id, the prefix of every topic it generates."""
    return f"{application}-app"


def changelog_topic(application: str, table: str) -> str:
    """Kaspr's name of a table's changelog topic."""
    return f"{application_id(application)}-{table}-changelog"


def default_channel(join: str) -> str:
    """The channel of a join without an ``outputChannel``."""
    return f"{join}-channel"
