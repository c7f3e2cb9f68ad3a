"""The names of the serializers of keys and values."""

from __future__ import annotations

from typing import Literal

TopicSerializer = Literal["json", "raw", "pickle", "binary"]
TableSerializer = Literal["json", "raw"]
