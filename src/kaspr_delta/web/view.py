"""One web view: runs a request through its pipeline, and makes the answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from kaspr_delta.engine.agent.step import CompiledOperation, Step
from kaspr_delta.engine.agent.table import NOT_WRITABLE
from kaspr_delta.engine.agent.table_state import TableState
from kaspr_delta.engine.agent.windowed_table import table_object
from kaspr_delta.engine.streams.clock import Clock
from kaspr_delta.engine.streams.effect import Effect
from kaspr_delta.engine.streams.event import App, this_millisecond
from kaspr_delta.engine.streams.output import Topics
from kaspr_delta.functions.call import call
from kaspr_delta.functions.failure import AUTHORS_CODE_FAILED, pass_on_interruption
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.functions.time_limit import EventTimeoutError, at_most
from kaspr_delta.plan.definition.resources import OperationPlan, TablePlan, WebViewPlan
from kaspr_delta.web.answer import JSON, Answer, checked_headers, checked_status, problem
from kaspr_delta.web.request import Request

_log = logging.getLogger(__name__)
_SELECTING = {"body": "bodySelector", "status": "statusCodeSelector", "header": "headersSelector"}
_NO_TOPICS = Topics({}, 1)
# From this status on the server is at fault, not the caller.
_FAULT = 500
# Stands for the end of an operation's values.
_END = object()
# Attributes of an exception that become part of the error that selectors and callers see.
_SHOWN_ATTRIBUTES = ("status_code", "code", "details", "message")


class OperationError(Exception):
    """An operation or a selector of a view failed; the cause is its exception."""

    def __init__(self, operation: str) -> None:
        super().__init__(operation)
        self.operation = operation


@dataclass(frozen=True)
class View:
    """A view with its dependencies. ``reader`` opens a table, ``send`` commits records to their topics."""

    plan: WebViewPlan
    app: App
    tables: Mapping[str, TablePlan]
    topics: Callable[[], Topics]
    reader: Callable[[TablePlan], Any]
    send: Callable[[list[Effect]], None]
    count: Callable[[str, str, int], None]
    timeout: float
    _scope: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)
    _selectors: dict[Snippet, Callable[..., Any]] = field(default_factory=dict, init=False, repr=False)

    @property
    def _is_typed(self) -> bool:
        """Whether the view reads typed tables."""
        return any(table.typed is not None for table in self.tables.values())

    def answer(self, request: Request) -> Answer:
        """The answer to a request. An exception of the author's code becomes an answer too; nothing is sent then."""
        try:
            try:
                with at_most(self.timeout):
                    answer, effects = self._success(request)
            except AUTHORS_CODE_FAILED as error:
                pass_on_interruption(error)
                with at_most(self.timeout):
                    return self._failure(error)
        except AUTHORS_CODE_FAILED as error:  # the answer to the failure has failed too
            pass_on_interruption(error)
            _log.exception("%s cannot answer", self.plan.ref)
            return problem(500, f"{self.plan.ref} failed, and its answer to the failure failed too")
        try:
            self.send(effects)
        except Exception:  # noqa: BLE001  after any error: the caller must not believe that it was sent
            _log.exception("the records that %s sends cannot be written", self.plan.ref)
            return problem(503, f"the records that {self.plan.ref} sends cannot be written now")
        return answer

    def _success(self, request: Request) -> tuple[Answer, list[Effect]]:
        """The answer, and the records to send before it is given."""
        states = {name: TableState(plan, self.reader(plan), self._clock(plan)) for name, plan in self.tables.items()}
        sends = any(operation.send is not None for operation in self.plan.pipeline)
        step = Step(self.topics() if sends else _NO_TOPICS, {})
        try:
            value = self._last_value(request, states, step)
        finally:
            for name, state in states.items():
                for operation, times in state.counts.items():
                    self.count(name, operation, times)
        for effect in step.effects:
            if effect.kind == "write":  # it was sent to a changelog
                raise TypeError(NOT_WRITABLE.format(effect.target))
        response, body = self.plan.response, value
        status, headers = self._head("on_success", value, response.status_code)
        if response.body.on_success is not None:
            body = self._selected("body", response.body.on_success, value)
        return Answer.of(status, headers, body, response.content_type, typed=self._is_typed), step.effects

    def _failure(self, failed: BaseException) -> Answer:
        operation, cause = "response", failed
        if isinstance(failed, OperationError):
            operation, cause = failed.operation, failed.__cause__ or failed
        response, error = self.plan.response, _described(operation, cause)
        for_functions = {**error, "cause_object": cause}
        status = _status_of(cause)
        if status >= _FAULT:  # below, the author reports a wrong request
            _log.warning("%s failed in %s", self.plan.ref, operation, exc_info=cause)
        status, headers = self._head("on_error", for_functions, status)
        if response.body.on_error is not None:
            body = self._selected("body", response.body.on_error, for_functions)
            return Answer.of(status, headers, body, response.content_type, typed=self._is_typed)
        to_response = getattr(cause, "to_response", None)
        return Answer.of(status, headers, to_response() if callable(to_response) else error, JSON)

    def _head(self, outcome: str, value: Any, status: int) -> tuple[int, tuple[tuple[str, str], ...]]:
        """Status and headers, by the selectors of an outcome where there are any."""
        response = self.plan.response
        of_status, of_headers = getattr(response.status, outcome), getattr(response.header, outcome)
        if of_status is not None:
            status = checked_status(self._selected("status", of_status, value))
        if of_headers is None:
            return status, response.headers
        return status, checked_headers(self._selected("header", of_headers, value))

    def _last_value(self, request: Request, states: Mapping[str, TableState], step: Step) -> Any:
        """The last value that comes out of the pipeline; None if none does."""
        tables = {name: table_object(state, read_only=True) for name, state in states.items()}
        step.begin({"app": self.app}, this_millisecond())
        steps = [
            (plan.name, self._operation(plan, tables, request.match_info if number == 0 else {}))
            for number, plan in enumerate(self.plan.pipeline)
        ]
        if not steps:
            return None
        value: Any = None
        first, *later = steps
        for result in _applied(first, step, request):
            level = [result]
            for operation in later:
                level = [handed_on for item in level for handed_on in _applied(operation, step, item)]
            for final in level:
                value = final
        return value

    def _operation(
        self, plan: OperationPlan, tables: Mapping[str, Any], parameters: Mapping[str, str]
    ) -> CompiledOperation:
        offered = {**parameters, **{given.parameter: tables[given.table] for given in plan.tables}}
        return CompiledOperation(plan, offered, self._init_scope)

    def _clock(self, plan: TablePlan) -> Clock | None:
        if plan.window is None:
            return None
        clock = Clock(plan.window, self.plan.name, {})
        clock.arrive(())
        return clock

    def _init_scope(self) -> dict[str, Any]:
        """The scope that ``init`` made: once, for all requests."""
        init = self.plan.init
        with self._lock:
            if not self._scope:
                scope: dict[str, Any] = {"context": {"app": self.app}}
                self._scope.update(init.run(scope) if init is not None else scope)
        if init is not None:
            init.enter(self._scope)
        return self._scope

    def _selected(self, which: str, snippet: Snippet, value: Any) -> Any:
        """The value that a selector returns for a value. Selectors see the scope of ``init``."""
        try:
            if snippet not in self._selectors:
                self._selectors[snippet] = snippet.function(dict(self._init_scope()))
            return call(self._selectors[snippet], value, {})
        except AUTHORS_CODE_FAILED as error:
            pass_on_interruption(error)
            raise OperationError(_SELECTING[which]) from error


def _applied(operation: tuple[str, CompiledOperation], step: Step, value: Any) -> Iterator[Any]:
    name, what = operation
    values: Iterator[Any] | None = None
    while True:
        # The caller's own errors and its end do not pass through here.
        try:
            values = iter(what.apply(step, value)) if values is None else values
            handed_on = next(values, _END)
        except AUTHORS_CODE_FAILED as error:
            pass_on_interruption(error)
            raise OperationError(name) from error
        if handed_on is _END:
            return
        yield handed_on


def _status_of(cause: BaseException) -> int:
    if isinstance(cause, EventTimeoutError):
        return 504
    try:
        return checked_status(getattr(cause, "status_code", 500))
    except ValueError:
        return 500


def _described(operation: str, cause: BaseException) -> dict[str, Any]:
    """The error as selectors and callers see it: texts, and some attributes of the exception."""
    message = str(cause) or type(cause).__name__
    described = {"operation": operation, "message": message, "cause": f"{type(cause).__name__}: {cause}"}
    own = {name: getattr(cause, name) for name in _SHOWN_ATTRIBUTES if hasattr(cause, name)}
    return described | own
