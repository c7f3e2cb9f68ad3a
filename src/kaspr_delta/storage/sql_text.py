"""Values as they stand in the text of Spark's SQL."""

from __future__ import annotations


def literal(text: str) -> str:
    """Text in a statement. Spark would put settings in the place of ``${name}``, in texts too."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{") + "'"
