"""All families, and the family of a case."""

from __future__ import annotations

from collections.abc import Mapping

from tests.oracle import (
    aggregate,
    foreign_key,
    stream_stream,
    stream_table,
    table_table,
    to_table,
    typed,
    windowed_count,
)
from tests.oracle.case import Case
from tests.oracle.family import Family

FAMILIES: Mapping[tuple[str, str], Family] = {
    (family.shape, name): family
    for family in (
        foreign_key.FAMILY,
        table_table.FAMILY,
        *stream_table.FAMILIES,
        stream_stream.FAMILY,
        *aggregate.FAMILIES,
        windowed_count.FAMILY,
        to_table.FAMILY,
        *typed.FAMILIES,
    )
    for name in family.types
}
"""By shape and type."""


def family_of(case: Case) -> Family:
    """The family of a case. Raises KeyError if its shape and type have no family."""
    return FAMILIES[case.shape, case.type]
