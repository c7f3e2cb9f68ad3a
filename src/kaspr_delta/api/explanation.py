"""Why a row of a join's result is as it is: as text, and as HTML in a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from kaspr_delta.control.follow import Station
from kaspr_delta.serde.json_text import value_text
from kaspr_delta.serde.typed_values import plain_json
from kaspr_delta.serde.unfolded import shown

_LONGEST = 300
# Rows of a station that the text has; HTML has all.
_MOST_LINES = 3


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """One key of a join of two tables, from its left row to its result.

    ``stations`` are the left row, the subscription (of a join by foreign key), the right row, the responses with the
    newest first, and the result, each with its ``rows``. ``reasons`` are sentences that say what follows from them.
    """

    resource: str
    key: Any
    stations: tuple[Station, ...]
    reasons: tuple[str, ...]

    @property
    def title(self) -> str:
        """The key and the join."""
        return f"{value_text(plain_json(self.key))} in {self.resource}"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The same for a notebook. It has no colours of its own, so that it suits light and dark ones."""
        head = f"<p><strong>{escape(self.title)}</strong></p><p>{escape(' '.join(self.reasons))}</p>"
        return f"<div>{head}{''.join(map(_html_of, self.stations))}</div>"

    def _lines(self) -> Iterator[str]:
        yield self.title
        yield ""
        for station in self.stations:
            yield f"{station.title}{f', {station.ref}' if station.ref else ''}:"
            for line in _lines_of(station):
                yield f"  {line}"
        yield ""
        yield from self.reasons


def _lines_of(station: Station) -> Iterator[str]:
    if station.why_not:
        yield f"cannot be read: {station.why_not}"
    elif not station.rows:
        yield "none"
    yield from map(_line_of, station.rows[:_MOST_LINES])
    if len(station.rows) > _MOST_LINES:
        yield f"and {len(station.rows) - _MOST_LINES} more"


def _line_of(row: Mapping[str, Any]) -> str:
    text = value_text(plain_json(row))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _html_of(station: Station) -> str:
    title = f"<p><strong>{station.title}</strong>{f' <code>{escape(str(station.ref))}</code>' if station.ref else ''}"
    about = f"<br><small>{escape(station.about)}</small></p>"
    if station.why_not:
        return f"{title}{about}<p>It cannot be read: {escape(station.why_not)}.</p>"
    if not station.rows:
        return f"{title}{about}<p>None.</p>"
    rows = station.unfolded
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = "".join(f"<tr>{''.join(f'<td>{escape(shown(cell))}</td>' for cell in row.values())}</tr>" for row in rows)
    return f"{title}{about}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
