"""The formats of a state: those that a run migrates, and those that it refuses."""

from __future__ import annotations

import pytest

from kaspr_delta.engine.batch.checkpoint import STATE_FORMAT
from kaspr_delta.engine.batch.migrations import MIGRATIONS, check_format, migrations_from
from kaspr_delta.errors import SetupError
from kaspr_delta.plan.definition.resources import ResourceRef

JOIN = ResourceRef("join", "orders")


def test_each_older_format_has_a_step_to_the_next_one() -> None:
    assert list(MIGRATIONS) == list(range(min(MIGRATIONS), STATE_FORMAT))
    assert migrations_from(min(MIGRATIONS)) == list(MIGRATIONS.values())
    assert migrations_from(STATE_FORMAT) == []


@pytest.mark.parametrize("found", [*MIGRATIONS, STATE_FORMAT])
def test_a_format_that_is_kept_or_migrated_is_not_refused(found: int) -> None:
    check_format(JOIN, found)


def test_a_rollback_is_refused_with_what_to_do() -> None:
    with pytest.raises(SetupError) as refused:
        check_format(JOIN, STATE_FORMAT + 1)
    said = str(refused.value)
    assert f"the state of join/orders has format {STATE_FORMAT + 1}" in said
    assert "use the version that migrated it, or a copy of the warehouse" in said
    assert "kaspr-delta delete join orders --purge" in said


def test_a_format_that_is_too_old_is_refused() -> None:
    with pytest.raises(SetupError, match="migrates states from format 1 on: use the version that wrote it"):
        check_format(JOIN, 0)
