"""JSON text in columns, as Python reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

# Python has no other quotes and no NaN, and reads text and nested values of any length, but no longer whole numbers.
_AS_PYTHON = {
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
    "maxStringLen": str((1 << 31) - 1),
    "maxNumLen": "4300",
}


def is_json(text: Column) -> Column:
    """Whether text is JSON as ``serde.json_text`` reads it; NULL is none.

    ``try_parse_json`` is another question: it reads no name that stands twice in an object and no half character, and
    does not look at what follows the first value.
    """
    # A list of the text and a mark that the text does not have: what would end the list early is not followed by it.
    mark = F.md5(text)
    listed = F.from_json(F.concat(F.lit("["), text, F.lit(',"'), mark, F.lit('"]')), "ARRAY<STRING>", _AS_PYTHON)
    return F.coalesce((F.size(listed) == 2) & (F.try_element_at(listed, F.lit(2)) == mark), F.lit(False))
