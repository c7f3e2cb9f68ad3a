"""The description of a table in its catalog: the answer of DESCRIBE TABLE EXTENDED, in fields."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kaspr_delta.storage.layout import CHANGE_FEED, ROW_TRACKING

_FILTER, _MASKS, _CONSTRAINTS = "Row Filter", "# Column Masks", "# Constraints"


@dataclass(frozen=True, slots=True)
class Description:
    """A table as its catalog describes it.

    ``kind`` is the catalog's word for it, such as MANAGED, VIEW or MATERIALIZED_VIEW; ``provider`` its format.
    ``properties`` is the catalog's text of them: values in it are not escaped. ``masked`` are columns with a mask.
    """

    kind: str = ""
    provider: str = ""
    comment: str = ""
    properties: str = ""
    filters_rows: bool = False
    masked: tuple[str, ...] = ()
    has_primary_key: bool = False
    column_comments: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, rows: Iterable[Sequence[str | None]]) -> Description:
        """The description in the rows of the statement: a label and its text in each."""
        columns, labels, masked, constraints = dict[str, str](), dict[str, str](), list[str](), list[str]()
        section: str | None = None  # the columns come first, without a heading
        for label, text, *further in rows:
            if not label or label.startswith("#"):
                section = label or ""
                labels.setdefault(section.removeprefix("# "), "")  # a filter may be a heading
            elif section is None:
                columns[label] = (further[0] if further else None) or ""
            elif section == _MASKS and label in columns:
                masked.append(label)
            elif section == _CONSTRAINTS:
                constraints.append(text or "")
            else:
                labels.setdefault(label, text or "")
        return cls(
            kind=labels.get("Type", "").upper(),
            provider=labels.get("Provider", "").lower(),
            comment=labels.get("Comment", ""),
            column_comments=tuple((name, comment) for name, comment in columns.items() if comment),
            properties=labels.get("Table Properties", ""),
            filters_rows=_FILTER in labels,
            masked=tuple(masked),
            has_primary_key=any(text.startswith("PRIMARY KEY") for text in constraints),
        )

    def has(self, name: str, value: str) -> bool:
        """Whether it has a property with this value."""
        return f",{name}={value}," in f",{self.properties.removeprefix('[').removesuffix(']')},"

    @property
    def has_change_feed(self) -> bool:
        """Whether a property turns its change data feed on."""
        return self.has(CHANGE_FEED, "true")

    @property
    def tracks_rows(self) -> bool:
        """Whether it has row tracking."""
        return self.has(ROW_TRACKING, "true")
