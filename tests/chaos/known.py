"""What is known and not mended yet, and so neither done nor judged: by name, with the reason."""

from __future__ import annotations

LEFT_OUT: dict[str, str] = {}
"""Steps that are not drawn. A history that is replayed may have them."""

NOT_CLAIMED: dict[str, str] = {}
"""Claims that are not judged."""
