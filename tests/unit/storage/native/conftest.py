from __future__ import annotations

from pathlib import Path

import pytest

from kaspr_delta.storage.namespace import LocalNamespace
from kaspr_delta.storage.native.delta_rs import DeltaRs


@pytest.fixture
def delta(tmp_path: Path) -> DeltaRs:
    return DeltaRs(LocalNamespace(tmp_path, "shop", "shop"))
