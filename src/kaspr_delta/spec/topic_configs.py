"""Kafka's settings of a topic that have an effect here: ``cleanup.policy`` and ``retention.ms``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kaspr_delta.spec.base import Problem

RETENTION = "retention.ms"
CLEANUP = "cleanup.policy"
WITH_EFFECT = frozenset({RETENTION, CLEANUP})

# Kafka's own default for deletion of old records: seven days, in milliseconds.
DEFAULT_RETENTION = 7 * 24 * 3_600_000

_POLICIES = frozenset({"compact", "delete"})
_WHOLE_NUMBER = re.compile(r"-1|\d+", re.ASCII)


def deletes(configs: Mapping[str, str], default: str) -> bool:
    """Whether old records are deleted. ``default`` is the policy if none is set: topics delete, changelogs compact."""
    return "delete" in _policies(configs, default)


def retention(configs: Mapping[str, str]) -> int | None:
    """How long records are kept, in milliseconds; None if they are kept for ever, or if nothing is set."""
    given = int(configs.get(RETENTION, -1))
    return None if given == -1 else given


def config_problems(configs: Mapping[str, str]) -> Iterator[Problem]:
    """The problems with the settings that have an effect."""
    if RETENTION in configs and not _WHOLE_NUMBER.fullmatch(configs[RETENTION]):
        hint = "a whole number of milliseconds, or -1 for ever"
        yield Problem(f"'{configs[RETENTION]}' is no {RETENTION}", hint, (RETENTION,))
    if unknown := sorted(_policies(configs, "compact") - _POLICIES):
        yield Problem(f"'{unknown[0]}' is no {CLEANUP}", "'compact', 'delete' or 'compact,delete'", (CLEANUP,))


def _policies(configs: Mapping[str, str], default: str) -> set[str]:
    return {policy.strip() for policy in configs.get(CLEANUP, default).split(",")}
