"""Names of the ways keys and values become bytes."""

from __future__ import annotations

from typing import Literal

TopicSerializer = Literal["json", "raw", "pickle", "binary"]
TableSerializer = Literal["json", "raw"]
