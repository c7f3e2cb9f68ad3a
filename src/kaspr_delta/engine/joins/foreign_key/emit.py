"""Emit: results that differ from the last emission go to the log, and so do changed subscriptions."""

from __future__ import annotations

from kaspr_delta.engine.joins.results import logged
from kaspr_delta.engine.rows.expressions import exists, same
from kaspr_delta.engine.rows.rows import Rows


def emit(results: Rows) -> Rows:
    """The rows of the log for results (see ``logged``). A subscription with ``live`` false is to be deleted."""
    subscriptions = results.with_columns(live=exists("left"))
    is_changed = ~(same("fk", "old_fk") & same("left_hash", "old_hash"))
    return logged(subscriptions, ("fk", "left_hash", "live", "stale"), is_changed)
