"""The pages of dead letters: the list, and the question before a retry puts their records on their topics again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from kaspr_delta.control.dead_letters import MOST_RETRIED, DeadLetters, Letter, letters_in, summed_by_resource
from kaspr_delta.web.access import Seals, Visitor

# Letters on a page.
_MOST = 200
# Characters of a value.
_LONGEST = 300


def all_letters(letters: DeadLetters, visitor: Visitor) -> dict[str, Any]:
    """The newest letters, of one resource or of all, each with its retry link or the reason why it has none."""
    resource = visitor.query.get("resource") or None
    with ThreadPoolExecutor() as at_once:
        counting = at_once.submit(letters_in, letters.tables.query)
        newest = letters.newest(_MOST, resource)
    return {
        "title": "dead letters",
        "letters": [_row(letters, one) for one in newest],
        "most": _MOST,
        "counts": dict(sorted(summed_by_resource(counting.result()).items())),
        "chosen": resource,
        "all": _asking(resource=resource) if resource else "",
        "refused": visitor.refused if any(map(letters.can_retry, newest)) else "",
        "done": _done(visitor.query),
    }


def question(letters: DeadLetters, visitor: Visitor, seals: Seals) -> dict[str, Any] | None:
    """The values of the question before a retry; None if none of the letters can be retried."""
    chosen = _chosen(letters, visitor.query)
    can = [one for one in chosen if letters.can_retry(one)]
    if not can:
        return None
    resource, letter = can[0].resource, visitor.query.get("letter", "")
    return {
        "title": "retry",
        "resource": resource,
        "letter": letter,
        "count": sum(one.copies for one in can),
        "others": sum(one.copies for one in chosen) - sum(one.copies for one in can),
        "shown": [_row(letters, one) for one in can[:5]],
        "origins": sorted({(origin.kind, origin.name) for origin in map(letters.origin_of, can) if origin}),
        "seen_twice": letters.seen_twice(can),
        "seal": seals.of(visitor, _purpose(resource, letter)),
        "refused": visitor.refused,
    }


def retry(letters: DeadLetters, visitor: Visitor, seals: Seals, form: Mapping[str, str]) -> tuple[str, dict[str, int]]:
    """Retry the letters that a form names. Return the page to go to, and the number of records put on each topic.

    Raises PermissionError if the visitor may not retry, or if the form is not from a page of this server.
    """
    if visitor.refused:
        raise PermissionError(visitor.refused)
    resource, letter = form.get("resource", ""), form.get("letter", "")
    if not seals.proves(form.get("seal", ""), visitor, _purpose(resource, letter)):
        raise PermissionError(
            "The form is not from a page of this server as it runs now. Go back, load the page again, and retry."
        )
    only_failed = form.get("readers") != "all"
    retried = letters.retry(_chosen(letters, form), visitor.user, only_failed=only_failed)
    numbers = {"sent": sum(retried.records.values()), "lost": len(retried.lost)}
    on_topics = {origin.name: sent for origin, sent in retried.records.items() if origin.kind == "topic"}
    return f"ui/dead-letters?{urlencode(numbers)}", on_topics


def _row(letters: DeadLetters, one: Letter) -> dict[str, Any]:
    can = letters.can_retry(one)
    return {
        "letter": one,
        "key": short_text(one.key),
        "value": short_text(one.value),
        "detail": short_text(one.detail, 10_000),
        "last_line": short_text((one.detail or "").rstrip().rpartition("\n")[2]),
        "retry": _asking(resource=one.resource, letter=one.id) if can else "",
        "why_not": "" if can else letters.why_not(one),
    }


def short_text(value: Any, longest: int = _LONGEST) -> str:
    """A value as text for people; long text is cut."""
    match value:
        case None:
            return ""
        case bytes():
            value = value.decode("utf-8", "replace")
        case datetime():
            value = f"{value:%Y-%m-%d %H:%M:%S}"
        case dict() | list():
            value = json.dumps(value, default=str)
    text = str(value)
    return text if len(text) <= longest else f"{text[:longest]}…"


def _chosen(letters: DeadLetters, query: Mapping[str, str]) -> list[Letter]:
    return letters.newest(MOST_RETRIED, query.get("resource", ""), query.get("letter") or None)


def _asking(**query: str) -> str:
    return f"ui/dead-letters/retry?{urlencode(query)}"


def _purpose(resource: str, letter: str) -> str:
    return f"retry\n{resource}\n{letter}"


def _done(query: Mapping[str, str]) -> str:
    """The outcome of a retry, by the query of the page it led to. Anybody may write a query: only numbers are used."""
    sent, lost = (query.get(name, "") for name in ("sent", "lost"))
    if not (sent.isdecimal() and lost.isdecimal()):
        return ""
    outcome = f"{int(sent):,} record{'' if int(sent) == 1 else 's'} sent once more."
    if int(lost):
        outcome += (
            f" {int(lost):,} could not be: the record is gone from its topic, or a newer one of its key came through"
            " the channel since."
        )
    return outcome
