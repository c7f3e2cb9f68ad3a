from __future__ import annotations

from dataclasses import asdict

from kaspr_delta.engine.batch.log import BatchMetadata
from kaspr_delta.engine.joins.stream_table.stream_table import StreamTableState


def test_a_state_is_read_back_from_the_log_unchanged() -> None:
    for state in (StreamTableState(), StreamTableState({"views": 7}, 3, fresh=True, until=1_700_000_000_000)):
        metadata = BatchMetadata(state=asdict(state))
        assert (
            BatchMetadata.from_json(metadata.to_json()).state == metadata.state
        )  # otherwise an empty batch would be committed
        assert StreamTableState.of(BatchMetadata.from_json(metadata.to_json()).state) == state


def test_unknown_fields_of_a_later_version_are_ignored() -> None:
    assert StreamTableState.of({"table": 3, "more": 1}) == StreamTableState(table=3)
