"""Values of typed columns as JSON, for callers that do not have the types of the columns."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any


def plain_json(value: Any) -> Any:
    """A value with dates as ISO text, bytes as base64 and decimals with all digits, as ``typed_values`` writes them.

    Other types are left to ``json_text``. There dates are midnights and bytes ``str()``, because Kaspr has no types.

    >>> plain_json({"day": date(2024, 5, 1), "raw": b"a", "price": Decimal("1E+1")})
    {'day': '2024-05-01', 'raw': 'YQ==', 'price': '10'}
    """
    match value:
        case Mapping():
            return {name: plain_json(item) for name, item in value.items()}
        case list() | tuple():
            return [plain_json(item) for item in value]
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal() if value.is_finite():
            return format(value, "f")
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case _:
            return value.isoformat() if type(value) is date else value
