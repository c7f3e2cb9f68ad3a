"""A fake Databricks workspace on this machine, with the part of the API for jobs that this package calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.serving import served_by_uvicorn

_PAGE = 2


@dataclass
class FakeWorkspace:
    """``jobs`` and ``runs`` as the API gives them, newest first; ``outputs`` by a task's run, ``secrets`` by key.

    ``schemas`` are properties by full name, ``permissions`` those of each object. A run that is ``started`` (those are
    the requests) is at each look as the next of ``seen``. Runs in ``ending`` have ended when somebody asks for them;
    those in ``cancelled`` somebody cancelled.
    """

    jobs: list[dict[str, Any]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    outputs: dict[int, dict[str, Any]] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    permissions: list[dict[str, Any]] = field(default_factory=list)
    ending: set[int] = field(default_factory=set)
    cancelled: list[int] = field(default_factory=list)
    started: list[dict[str, Any]] = field(default_factory=list)
    seen: list[dict[str, Any]] = field(default_factory=list)
    requested_paths: list[str] = field(default_factory=list)
    refuses: bool = False
    user: str = "ann@example.com"

    def answer(self, path: str, query: dict[str, str]) -> dict[str, Any] | None:  # noqa: PLR0911  one a request
        """The answer of a workspace; None for an unknown path or run."""
        self.requested_paths.append(path)
        if path == "/api/2.0/preview/scim/v2/Me":
            return {"userName": self.user}
        if path == "/api/2.0/secrets/get" and query["key"] in self.secrets:
            return {"key": query["key"], "value": self.secrets[query["key"]]}
        kind, _, name = path.removeprefix("/api/2.1/unity-catalog/").partition("/")
        if kind == "schemas" and name in self.schemas:
            return {"full_name": name, "properties": self.schemas[name]}
        if kind == "table-summaries":
            return {"tables": [{"full_name": f"{query['schema_name_pattern']}.orders"}]}
        if path.startswith("/api/2.0/permissions/"):
            return {"access_control_list": self.permissions}
        if path == "/api/2.2/jobs/list":
            return self._page("jobs", self.jobs, query)
        if path == "/api/2.2/jobs/runs/list":
            ended = "end_time" if query.get("active_only") == "true" else ""
            runs = [run for run in self.runs if str(run["job_id"]) == query["job_id"] and ended not in run]
            return self._page("runs", runs, query)
        if path == "/api/2.2/jobs/runs/get":
            number = int(query["run_id"])
            return {"run_id": number, **(self.seen.pop(0) if self.seen else {"end_time": int(number in self.ending)})}
        if path == "/api/2.2/jobs/runs/get-output":
            return self.outputs.get(int(query["run_id"]))
        return None

    @staticmethod
    def _page(name: str, items: list[dict[str, Any]], query: dict[str, str]) -> dict[str, Any]:
        start = int(query.get("page_token", 0))
        end = start + _PAGE
        more = {"next_page_token": str(end), "has_more": True} if end < len(items) else {}
        return {name: items[start:end], **more}


@contextmanager
def serving(workspace: FakeWorkspace) -> Iterator[str]:
    """Serve the workspace on a free port; its address."""

    async def answer(request: Request) -> JSONResponse:
        if workspace.refuses:
            return JSONResponse({"error_code": "PERMISSION_DENIED", "message": "you may not look at jobs"}, 403)
        if request.url.path.endswith("/run-now"):
            workspace.started.append(await request.json())
            return JSONResponse({"run_id": 90})
        if request.method == "DELETE":
            del workspace.schemas[request.url.path.rpartition("/")[2]]
        if request.method == "POST":
            workspace.cancelled.append((await request.json())["run_id"])
        found = {} if request.method != "GET" else workspace.answer(request.url.path, dict(request.query_params))
        if found is None:
            return JSONResponse({"error_code": "NOT_FOUND", "message": request.url.path}, 404)
        return JSONResponse(found)

    application: Any = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST", "DELETE"])])
    with served_by_uvicorn(application) as client:
        yield str(client.base_url).rstrip("/")


_STARTED = int(datetime(2027, 3, 1, 6, 30, tzinfo=timezone.utc).timestamp() * 1_000)
JOIN = "join/orders-products-join"


def _job(number: int, name: str, application: str, target: str = "prod", **settings: Any) -> dict[str, Any]:
    tags = {"framework": "kaspr-delta", "application": application, "target": target}
    return {"job_id": number, "settings": {"name": name, "tags": tags, **settings}}


def _own_job(number: int, user: str, application: str, **settings: Any) -> dict[str, Any]:
    """A job that a user deployed for development: the CLI adds a prefix to its name, and a tag."""
    job = _job(number, f"[dev {user}] {application}", application, "dev", **settings)
    job["settings"]["tags"]["dev"] = user
    return {**job, "creator_user_name": f"{user}@example.com"}


def _run(job_id: int, number: int, state: dict[str, str], *tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    times = {"start_time": _STARTED, "end_time": _STARTED + 75_000, "trigger": "PERIODIC"}
    return {"job_id": job_id, "run_id": number, "state": state, "tasks": list(tasks), **times, **more}


def _task(number: int, key: str, state: dict[str, str], resource: str) -> dict[str, Any]:
    wheel = {"entry_point": "kaspr-delta-task", "parameters": ["run", "x", "--only", resource]}
    return {"run_id": number, "task_key": key, "state": state, "python_wheel_task": wheel}


def _verdict(number: int, state: dict[str, str]) -> dict[str, Any]:
    """The last task of a run, of which the workspace has no output."""
    return {"run_id": number, "task_key": "verdict", "state": state, "condition_task": {"op": "EQUAL_TO"}}


SUCCESS = {"life_cycle_state": "TERMINATED", "result_state": "SUCCESS"}
FAILED = {"life_cycle_state": "TERMINATED", "result_state": "FAILED", "state_message": "Workload failed"}
_SKIPPED = {"life_cycle_state": "TERMINATED", "result_state": "UPSTREAM_FAILED"}


def with_operations(workspace: FakeWorkspace, *states: dict[str, str], logs: str = "") -> None:
    """Deploy the job for operations to prod. A run of it passes through these states, and its task writes ``logs``."""
    job = _job(6, "order-system: operations", "order-system")
    job["settings"]["tags"]["purpose"] = "operation"
    workspace.jobs.append(job)
    task = _task(901, "operation", states[-1], "")
    workspace.seen = [{"state": one, "tasks": [task], "run_page_url": "https://example.com/runs/90"} for one in states]
    workspace.outputs[901] = {"logs": logs}


def two_applications() -> FakeWorkspace:
    """Two deployed applications, one of them on two targets, among jobs of others."""
    cron = {"quartz_cron_expression": "0 0/15 * * * ?", "timezone_id": "UTC"}
    periodic = {"interval": 90, "unit": "MINUTES"}
    well = (("agent_ingest", SUCCESS, "agent/ingest"), ("join", SUCCESS, JOIN))
    failed = (
        _task(131, "agent_ingest", SUCCESS, "agent/ingest"),
        _task(132, "join", {**FAILED, "state_message": "SerializationError: no JSON"}, JOIN),
        _task(133, "agent_enrich", SUCCESS, "agent/enrich"),
        _verdict(134, _SKIPPED),
    )
    return FakeWorkspace(
        jobs=[
            {"job_id": 7, "settings": {"name": "somebody else's", "tags": {"target": "prod"}}},
            {"job_id": 8, "settings": {"name": "without tags"}},
            _job(1, "order-system", "order-system", schedule=cron),
            _job(2, "order-system: task/report", "order-system", trigger={"periodic": periodic}),
            _job(3, "page-views: join/j", "page-views", continuous={"pause_status": "PAUSED"}),
            _own_job(4, "ann", "order-system", schedule={**cron, "pause_status": "PAUSED"}),
            _own_job(5, "bob", "order-system", schedule={**cron, "pause_status": "PAUSED"}),
        ],
        runs=[
            _run(1, 13, FAILED, *failed, run_page_url="https://example.com/runs/13"),
            _run(1, 12, SUCCESS, *(_task(120 + n, *task) for n, task in enumerate(well, start=1))),
            _run(1, 11, SUCCESS),
            _run(3, 31, {"life_cycle_state": "RUNNING"}, end_time=0, trigger="CONTINUOUS"),
        ],
        outputs={
            131: {"logs": "agent/ingest: 3 rows in\n"},
            132: {"logs": "reading\n", "logs_truncated": True, "error": "no JSON", "error_trace": "Traceback: here"},
            133: {},
            122: {"logs": "all is well\n"},
        },
    )
