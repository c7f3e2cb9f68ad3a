"""Steps that are left out because they show known defects: by name, with the reason."""

from __future__ import annotations

LEFT_OUT: dict[str, str] = {}
"""Steps that are not drawn. A replayed history may still have them."""
