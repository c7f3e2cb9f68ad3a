from __future__ import annotations

from kaspr_delta.storage.spark.sql_text import literal


def test_a_literal_escapes_quotes_backslashes_and_variables() -> None:
    assert literal("it's ${spark.app.name} \\n") == "'it\\'s \\u0024{spark.app.name} \\\\n'"
