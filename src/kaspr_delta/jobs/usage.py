"""Queries over Databricks' system tables that measure a deployed application: its DBU, and its statements and bytes.

The jobs are found by their tags, in ``system.lakeflow.jobs``: rows of serverless usage may lack the tags of jobs. A job
id is unique in its workspace only.
"""

from __future__ import annotations

from kaspr_delta.jobs.app import app_name, has_web_views
from kaspr_delta.jobs.deployment import Deployment
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.settings import JOB_FRAMEWORK

_DAYS = 30


def usage_query(plan: Plan, deployment: Deployment) -> str:
    """The DBU of an application's jobs, and of its App, by day and by product.

    Corrections of earlier rows are rows too, so that a sum has them.
    """
    of_app = ""
    if deployment.sql_warehouse and has_web_views(plan):
        app = _text(app_name(plan.application, deployment.target, deployment.developer))
        of_app = f" OR usage.usage_metadata.app_name = {app}"
    return f"""{_jobs(plan, deployment)}
SELECT usage.usage_date, coalesce(jobs.name, usage.usage_metadata.app_name) AS name, usage.sku_name,
  sum(usage.usage_quantity) AS dbu
FROM system.billing.usage AS usage
LEFT JOIN jobs ON jobs.workspace_id = usage.workspace_id AND jobs.job_id = usage.usage_metadata.job_id
WHERE usage.usage_unit = 'DBU' AND usage.usage_date >= current_date() - INTERVAL {_DAYS} DAYS
  AND (jobs.job_id IS NOT NULL{of_app})
GROUP BY ALL ORDER BY usage.usage_date DESC, dbu DESC"""  # noqa: S608  names of the application


def statements_query(plan: Plan, deployment: Deployment) -> str:
    """The statements of an application's serverless jobs by day, and the bytes that these read and wrote."""
    return f"""{_jobs(plan, deployment)}
SELECT date(history.start_time) AS day, jobs.name, count(*) AS statements,
  sum(history.read_bytes) AS bytes_read, sum(history.written_bytes) AS bytes_written
FROM system.query.history AS history
JOIN jobs ON jobs.workspace_id = history.workspace_id AND jobs.job_id = history.query_source.job_info.job_id
WHERE history.start_time >= current_date() - INTERVAL {_DAYS} DAYS
GROUP BY ALL ORDER BY day DESC, statements DESC"""  # noqa: S608


def _jobs(plan: Plan, deployment: Deployment) -> str:
    """The jobs by the tags that ``JobBuilder`` gives them, with their last names."""
    tags = {"framework": JOB_FRAMEWORK, "application": plan.application, "target": deployment.target}
    found = " AND ".join(f"tags[{_text(name)}] = {_text(value)}" for name, value in tags.items())
    return f"""WITH jobs AS (
  SELECT workspace_id, job_id, max_by(name, change_time) AS name FROM system.lakeflow.jobs
  WHERE {found}
  GROUP BY workspace_id, job_id
)"""  # noqa: S608


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
