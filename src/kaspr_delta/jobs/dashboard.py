"""The AI/BI dashboard of an application: progress, delays, dead letters and warnings.

It costs when somebody looks at it. Databricks documents the file of an exported dashboard by example only
(https://docs.databricks.com/dashboards/): widgets here are of the kinds ``table`` and ``bar``.
"""

from __future__ import annotations

import json
from typing import Any

from databricks.bundles.dashboards import Dashboard

from kaspr_delta.jobs.deployment import Deployment
from kaspr_delta.jobs.storage import Storage
from kaspr_delta.storage.layout import DEAD_LETTERS, DELAY, EVENTS, OF_RESOURCES, PROGRESS, RETENTION

_WIDTH, _HEIGHT = 6, 6

DELAY_IN_SQL = f"try_element_at(from_json(counts, 'MAP<STRING, BIGINT>'), '{DELAY}')"
"""The delay of a batch, in seconds, from a row of the progress. Only the first batch of a stream has it."""

DATASETS: dict[str, tuple[str, str]] = {
    "resources": (
        "Resources, by their batches of the last 30 days",
        f"""SELECT resource, max(at) AS last_batch,
  round((unix_timestamp(current_timestamp()) - unix_timestamp(max(at))) / 60) AS minutes_ago,
  round(max_by({DELAY_IN_SQL}, at) FILTER (WHERE {DELAY_IN_SQL} IS NOT NULL) / 60, 1) AS delay_in_minutes,
  count(*) AS batches, sum(rows_in) AS rows_in, sum(rows_out) AS rows_out, sum(dead_letters) AS dead_letters,
  round(avg(seconds), 1) AS seconds_a_batch
FROM {PROGRESS} WHERE {OF_RESOURCES} GROUP BY resource ORDER BY last_batch DESC""",  # noqa: S608
    ),
    "rows": (
        "Rows that resources read, by day",
        f"""SELECT date(at) AS day, resource, sum(rows_in) AS rows_in
FROM {PROGRESS} WHERE {OF_RESOURCES} GROUP BY day, resource""",  # noqa: S608
    ),
    "delays": (
        "Longest delay in minutes, from the commit of a change to the batch that read it, by day",
        f"""SELECT date(at) AS day, resource, round(max({DELAY_IN_SQL}) / 60, 1) AS minutes
FROM {PROGRESS} WHERE {OF_RESOURCES} AND at > current_timestamp() - INTERVAL {RETENTION[PROGRESS]} DAYS
GROUP BY day, resource HAVING minutes IS NOT NULL""",  # noqa: S608
    ),
    "letters": (
        "Dead letters, by day",
        f"""SELECT date(at) AS day, resource, count(*) AS dead_letters
FROM {DEAD_LETTERS} GROUP BY day, resource""",  # noqa: S608
    ),
    "reasons": (
        "Reasons of dead letters: mend the function or the data, deploy, and retry them",
        f"""SELECT resource, reason, count(*) AS dead_letters, max(at) AS last, max_by(detail, at) AS last_detail
FROM {DEAD_LETTERS} GROUP BY resource, reason ORDER BY last DESC LIMIT 100""",  # noqa: S608
    ),
    "warnings": (
        "Warnings: messages say what to do",
        f"""SELECT at, reason, kind, name, message
FROM {EVENTS} WHERE type = 'Warning' ORDER BY at DESC LIMIT 100""",  # noqa: S608
    ),
}
"""The titles and queries of the widgets, on tables of the application's schema."""

_COLUMNS = {
    "resources": (
        *("resource", "last_batch", "minutes_ago", "delay_in_minutes", "batches", "rows_in", "rows_out"),
        *("dead_letters", "seconds_a_batch"),
    ),
    "reasons": ("resource", "reason", "dead_letters", "last", "last_detail"),
    "warnings": ("at", "reason", "kind", "name", "message"),
}
_BARS = {"rows": "rows_in", "delays": "minutes", "letters": "dead_letters"}


def dashboard(application: str, deployment: Deployment, storage: Storage) -> Dashboard:
    """The dashboard, which reads the tables through the SQL warehouse, with the rights of whoever looks at it."""
    layout = [
        {"widget": _widget(name), "position": {"x": 0, "y": row * _HEIGHT, "width": _WIDTH, "height": _HEIGHT}}
        for row, name in enumerate(DATASETS)
    ]
    content = {
        "datasets": [
            {"name": name, "displayName": title, "queryLines": [query]} for name, (title, query) in DATASETS.items()
        ],
        "pages": [{"name": "application", "displayName": application, "layout": layout}],
    }
    return Dashboard(
        display_name=f"{application} ({deployment.target})",
        warehouse_id=deployment.sql_warehouse,
        dataset_catalog=storage.catalog,
        dataset_schema=storage.of_internal,
        serialized_dashboard=json.dumps(content),
        embed_credentials=False,
    )


def _widget(name: str) -> dict[str, Any]:
    spec, fields = _bars(_BARS[name]) if name in _BARS else _table(_COLUMNS[name])
    query = {"datasetName": name, "fields": fields, "disaggregated": name not in _BARS}
    frame = {"title": DATASETS[name][0], "showTitle": True}
    return {"name": name, "queries": [{"name": "main_query", "query": query}], "spec": {**spec, "frame": frame}}


def _table(columns: tuple[str, ...]) -> tuple[dict[str, Any], list[dict[str, str]]]:
    shown = [{"fieldName": column, "displayName": column.replace("_", " ")} for column in columns]
    spec = {"version": 2, "widgetType": "table", "encodings": {"columns": shown}}
    return spec, [{"name": column, "expression": f"`{column}`"} for column in columns]


def _bars(column: str) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Bars by day, in colours of resources."""
    total = f"sum({column})"
    encodings = {
        "x": {"fieldName": "day", "scale": {"type": "temporal"}, "displayName": "day"},
        "y": {"fieldName": total, "scale": {"type": "quantitative"}, "displayName": column.replace("_", " ")},
        "color": {"fieldName": "resource", "scale": {"type": "categorical"}, "displayName": "resource"},
    }
    fields = [(name, f"`{name}`") for name in ("day", "resource")] + [(total, f"SUM(`{column}`)")]
    spec = {"version": 3, "widgetType": "bar", "encodings": encodings}
    return spec, [{"name": name, "expression": expression} for name, expression in fields]
