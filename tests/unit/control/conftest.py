from __future__ import annotations

from pathlib import Path

import pytest

from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.native.delta_rs import DeltaRs
from tests.folders import delta_rs


@pytest.fixture
def delta(tmp_path: Path) -> DeltaRs:
    """The tables of order-system in a new warehouse."""
    return delta_rs(Warehouse(str(tmp_path)).namespace("order_system"))
