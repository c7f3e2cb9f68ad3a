"""Plans of web views."""

from __future__ import annotations

from collections.abc import Sequence

from kaspr_delta.functions.call import unfilled
from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication
from kaspr_delta.plan.builder.defaults import Defaults
from kaspr_delta.plan.builder.pipelines import OPERATIONS, initializer, pipeline, tables_handed
from kaspr_delta.plan.builder.references import References
from kaspr_delta.plan.builder.report import Report
from kaspr_delta.plan.definition.paths import SYSTEM_PATHS, parts_of, shape_of
from kaspr_delta.plan.definition.resources import OperationPlan, ResourceRef, ResponsePlan, SelectorPlan, WebViewPlan
from kaspr_delta.spec.diagnostics import Location
from kaspr_delta.spec.near import suggestion
from kaspr_delta.spec.webview import ResponseSelector, WebViewSpec


def web_view_plans(
    application: DeclaredApplication, defaults: Defaults, references: References
) -> tuple[WebViewPlan, ...]:
    """The plans of all web views that do not wait, sorted by name."""
    views = [application.web_views[name] for name in sorted(application.web_views)]
    _refuse_addresses_twice(views, references.report)
    return tuple(filter(None, (_plan(view, defaults, references) for view in views)))


def _plan(view: Declared[WebViewSpec], defaults: Defaults, references: References) -> WebViewPlan | None:
    ref = ResourceRef("webview", view.name)
    spec = view.spec
    tables = tables_handed(ref, view, spec.processors, references)
    _refuse_parameters_twice(view, references.report)
    if ref in references.waiting:
        return None
    steps = tuple(pipeline(view, spec.processors, defaults))
    _refuse_unfilled_parameters(view, steps, references.report)
    return WebViewPlan(
        name=view.name,
        method=spec.request.method,
        path=spec.request.path,
        response=_response(view),
        init=initializer(view, spec.processors),
        pipeline=steps,
        tables=tables,
        description=spec.description,
        location=view.location,
    )


def _response(view: Declared[WebViewSpec]) -> ResponsePlan:
    spec = view.spec.response

    def selector(field: str, given: ResponseSelector | None) -> SelectorPlan:
        at = ("spec", "response", field)
        functions = (
            view.source.snippet(code, *at, name) if code else None
            for name, code in (
                ("onSuccess", given.on_success if given else None),
                ("onError", given.on_error if given else None),
            )
        )
        return SelectorPlan(*functions)

    return ResponsePlan(
        content_type=spec.content_type,
        status_code=spec.status_code or 200,
        headers=tuple((spec.headers or {}).items()),
        body=selector("bodySelector", spec.body_selector),
        status=selector("statusCodeSelector", spec.status_code_selector),
        header=selector("headersSelector", spec.headers_selector),
    )


def _refuse_parameters_twice(view: Declared[WebViewSpec], report: Report) -> None:
    """Report names used twice: the first function gets the parameters of the path and its tables by name."""
    in_path = {part.parameter for part in parts_of(view.spec.request.path)}
    for index, operation in list(view.spec.processors.steps())[:1]:
        for number, table in enumerate(operation.tables):
            if table.param_name in in_path:
                at = view.source.locate_value(*OPERATIONS, index, "tables", number, "paramName")
                message = f"'{table.param_name}' is a parameter of the path {view.spec.request.path} already"
                report.error(at, message, "give the table another paramName")


def _refuse_unfilled_parameters(view: Declared[WebViewSpec], steps: Sequence[OperationPlan], report: Report) -> None:
    """Report parameters of functions that get nothing, most likely misspelt parameters of the path."""
    in_path = tuple(part.parameter for part in parts_of(view.spec.request.path) if part.parameter is not None)
    indexes = {operation.name: index for index, operation in view.spec.processors.steps()}
    for number, step in enumerate(steps):
        if step.function is None:
            continue
        offered = (*(in_path if number == 0 else ()), *(table.parameter for table in step.tables))
        for name in unfilled(step.function, offered):
            at = view.source.locate_value(*OPERATIONS, indexes[step.name], step.kind, "python")
            message = f"nothing fills the parameter '{name}' of '{step.function.entrypoint}'"
            report.error(at, message, suggestion(name, offered, "beside the value it can have"))


def _refuse_addresses_twice(views: list[Declared[WebViewSpec]], report: Report) -> None:
    """Report views that would answer the same requests, or requests that the server itself answers."""
    addresses: dict[tuple[str, str], Location] = {}
    for view in views:
        request = view.spec.request
        at = view.source.locate_value("spec", "request", "path")
        shape = shape_of(request.path)
        if shape in SYSTEM_PATHS or shape.startswith("/ui/"):
            report.error(at, f"the server itself answers {shape}", "choose another path")
        first = addresses.setdefault((request.method, shape), view.location)
        if first != view.location:
            message = f"{request.method} {request.path} is answered by the web view at {first} already"
            report.error(at, message, "change the method or the path")
