"""Alerts of a workspace about what no job that fails tells: dead letters, resources that stand still, delay, silence.

Each look at the tables starts the SQL warehouse, so a deployment has alerts only if it says when they look.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from databricks.bundles.alerts import Alert, AlertV2RunAs, AlertV2Subscription

from kaspr_delta.control.events import FAILED, REBUILD_REQUIRED, RESUMED, WAITING
from kaspr_delta.jobs.dashboard import DELAY_IN_SQL
from kaspr_delta.jobs.deployment import Deployment
from kaspr_delta.jobs.storage import Storage
from kaspr_delta.spec.cron import quartz_longest_pause
from kaspr_delta.spec.ddl import quoted
from kaspr_delta.spec.durations import interval
from kaspr_delta.spec.kinds import BOUND_TOPIC
from kaspr_delta.storage.layout import DEAD_LETTERS, EVENTS, OF_RESOURCES, PROGRESS, RESOURCES

# Seconds.
_EACH_LOOK, _EACH_DAY = 1, 24 * 60 * 60
# Hours.
_DAY = 24
# An alert may look late.
_SLACK = 1


@dataclass(frozen=True, slots=True)
class _Question:
    """A query whose column ``found`` is more than 0 if somebody has to look, and the sentence that says what to do.

    ``again``: seconds after which it is said again while it is so. 1: at each look.
    """

    key: str
    title: str
    query: str
    remedy: str
    again: int = _EACH_DAY


def alerts(application: str, deployment: Deployment, storage: Storage) -> Iterator[tuple[str, Alert]]:
    """The alerts of an application with the ends of their keys in the bundle; none without a schedule."""
    if not deployment.alert_schedule:
        return
    subscribers = [
        *(AlertV2Subscription(user_email=address) for address in deployment.notify),
        *(AlertV2Subscription(destination_id=webhook) for webhook in deployment.webhooks),
    ]
    for one in _questions(storage, deployment):
        alert = Alert.from_dict(
            {
                "display_name": f"{application} ({deployment.target}): {one.title}",
                "query_text": one.query,
                "warehouse_id": deployment.sql_warehouse,
                "schedule": {
                    "quartz_cron_schedule": deployment.alert_schedule,
                    "timezone_id": deployment.timezone or "UTC",
                },
                "evaluation": {
                    "source": {"name": "found", "aggregation": "MAX"},
                    "comparison_operator": "GREATER_THAN",
                    "threshold": {"value": {"double_value": 0.0}},
                    "empty_result_state": "OK",
                    "notification": {"subscriptions": [*subscribers], "retrigger_seconds": one.again},
                },
                "custom_summary": f"{application}: {one.title}",
                "custom_description": one.remedy,
            }
        )
        # The owner of the tables may read them, the identity that deploys perhaps not.
        if deployment.run_as is not None and deployment.run_as.kind != "group":
            alert.run_as = AlertV2RunAs(**deployment.run_as.grantee)
        yield one.key, alert


def _questions(storage: Storage, deployment: Deployment) -> Iterator[_Question]:
    """The questions. What happened before the look before was reported then; a failure counts for a day at least."""
    hours = quartz_longest_pause(deployment.alert_schedule) + _SLACK
    since_last, lately = (f"current_timestamp() - INTERVAL {one} HOUR" for one in (hours, max(_DAY, hours)))
    letters, events, progress, resources = (
        ".".join(map(quoted, (storage.catalog, storage.of_internal, table)))
        for table in (DEAD_LETTERS, EVENTS, PROGRESS, RESOURCES)
    )
    applied = f"(SELECT DISTINCT kind, name FROM {resources} UNION SELECT '{BOUND_TOPIC}', name FROM {events})"  # noqa: S608
    yield _Question(
        "dead_letters",
        "new dead letters",
        f"SELECT count(*) AS found FROM {letters} WHERE at > {since_last}",  # noqa: S608
        f"Events or rows could not be processed: the columns reason and detail of {letters} say why. Mend the function"
        " or the data, and deploy; then retry them.",
        _EACH_LOOK,
    )
    yield _Question(
        "stopped",
        "resources wait, have failed or need a rebuild",
        f"""SELECT count(*) AS found FROM (
  SELECT concat(lower(substr(kind, 6)), '/', name) AS resource, max_by(reason, at) AS last, max(at) AS since
  FROM {events} JOIN {applied} USING (kind, name)
  WHERE reason IN ('{WAITING}', '{RESUMED}', '{FAILED}', '{REBUILD_REQUIRED}')
  GROUP BY kind, name
) LEFT JOIN (SELECT resource, max(at) AS worked FROM {progress} GROUP BY resource) USING (resource)
WHERE last = '{WAITING}' OR (coalesce(worked <= since, true) AND (
  last = '{REBUILD_REQUIRED}' OR (last = '{FAILED}' AND since > {lately})
))""",  # noqa: S608
        f"The column message of {events} says what a resource waits for, why it failed, or which command brings it up"
        " to date.",
    )
    if deployment.alert_delay:
        seconds = interval("variable 'alert_delay':", deployment.alert_delay) // 1_000
        yield _Question(
            "behind",
            f"changes that were older than {deployment.alert_delay} when they were read",
            f"""SELECT count(*) AS found FROM (
  SELECT resource, max({DELAY_IN_SQL}) AS behind FROM {progress} WHERE {OF_RESOURCES} AND at > {since_last}
  GROUP BY resource
) WHERE behind > {seconds}""",  # noqa: S608
            f"A run found changes that had waited for longer than {deployment.alert_delay}: does its job run often"
            " enough, does it fail, or does a run take too long? The dashboard has the delay of each resource by day.",
            _EACH_LOOK,
        )
    silence = deployment.alert_silence
    if silence:
        seconds = interval("variable 'alert_silence':", silence) // 1_000
        yield _Question(
            "silent",
            f"no batch for {silence}",
            f"""SELECT count(*) AS found FROM (
  SELECT resource, max(at) AS worked FROM {progress}
  WHERE {OF_RESOURCES} AND (resource LIKE 'topic/%'
    OR resource IN (SELECT concat(lower(substr(kind, 6)), '/', name) FROM {resources}))
  GROUP BY resource
) WHERE worked < current_timestamp() - INTERVAL {seconds} SECOND""",  # noqa: S608
            f"A resource has had no batch for {silence}: is its job paused, does it fail, or has nothing come in?"
            f" The newest rows of {progress} have each resource's last batch.",
        )
