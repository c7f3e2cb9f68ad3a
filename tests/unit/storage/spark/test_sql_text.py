from __future__ import annotations

from kaspr_delta.storage.spark.sql_text import literal


def test_a_text_in_a_statement_is_no_name_of_a_setting() -> None:
    assert literal("it's ${spark.app.name} \\n") == "'it\\'s \\u0024{spark.app.name} \\\\n'"
