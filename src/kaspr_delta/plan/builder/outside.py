"""Notes on functions that call other services from Spark's Python workers, which may have no network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.builder.report import Report
from kaspr_delta.plan.definition.resources import AgentPlan, SendPlan, sends_of
from kaspr_delta.spec.diagnostics import Location

# A function that imports one of these modules most likely uses a network.
_OVER_A_NETWORK = frozenset(
    {
        "aiohttp",
        "boto3",
        "botocore",
        "ftplib",
        "grpc",
        "http",
        "httpx",
        "kafka",
        "psycopg",
        "psycopg2",
        "pymongo",
        "redis",
        "requests",
        "smtplib",
        "socket",
        "urllib.request",
        "urllib3",
        "websockets",
    }
)
_HINT = "an agent with a table or `take` stays out of them: see 'Where functions run' in docs/agents.md"


def note_calls_from_workers(agents: Iterable[AgentPlan], report: Report) -> None:
    """Add a note for each function that imports such a module, of agents without tables and without ``take``."""
    for agent in agents:
        if agent.ordered:
            continue
        for function in _functions(agent):
            imported = sorted(function.imports & _OVER_A_NETWORK)
            if imported:
                report.note(
                    Location(function.file, function.first_line),
                    f"agent '{agent.name}' runs this in Spark's Python workers when a batch is large, and they may have"
                    f" no network; it imports {' and '.join(imported)}",
                    _HINT,
                )


def _functions(agent: AgentPlan) -> Iterator[Snippet]:
    given = (agent.init, *(operation.function for operation in agent.pipeline), *_selectors(sends_of(agent)))
    yield from filter(None, given)


def _selectors(sends: Iterable[SendPlan]) -> Iterator[Snippet | None]:
    for send in sends:
        yield from (send.name_selector, send.key_selector, send.value_selector, send.partition_selector)
        yield from (send.headers_selector, send.predicate)
