"""When a run that has nothing else to do removes old rows."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from kaspr_delta.engine.retention import removal_is_due
from tests.manifests import plan_of

NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("retentions", "since", "is_due"),
    [
        ([], None, False),
        ([], HOUR, False),
        ([HOUR], None, True),
        ([10 * HOUR], HOUR, True),
        ([10 * HOUR], HOUR * 0.99, False),
        ([1_000 * HOUR, 10 * HOUR], HOUR, True),
        ([1_000 * HOUR], 23 * HOUR, False),
        ([1_000 * HOUR], 24 * HOUR, True),
        ([1_000 * HOUR], -HOUR, True),
    ],
)
def test_old_rows_are_removed_after_a_tenth_of_the_shortest_retention_or_a_day(
    retentions: list[timedelta], since: timedelta | None, is_due: bool
) -> None:
    milliseconds = [str(one // timedelta(milliseconds=1)) for one in retentions]
    tables = [
        f"KasprTable/t{number}: {{extraTopicConfigs: {{cleanup.policy: delete, retention.ms: '{one}'}}}}"
        for number, one in enumerate(milliseconds)
    ]
    last = None if since is None else NOON - since
    assert removal_is_due(plan_of("shop", "\n".join(["KasprTable/kept: {}", *tables])), last, NOON) is is_due
