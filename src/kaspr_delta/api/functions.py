"""The functions of manifests, to call them from tests and notebooks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from kaspr_delta.errors import NotFoundError
from kaspr_delta.functions.call import awaited
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import PipelinePlan


def function_of(plan: Plan, resource: str, name: str | None, context: Mapping[str, Any]) -> Callable[..., Any]:
    """A function of the resource ``kind/name``: an operation by its name, else ``extractor``, ``adder`` and the like.

    Without a name it is the only one. It takes the arguments that the manifest writes, tables as dictionaries, and sees
    what ``init`` made and ``context``. A coroutine is awaited. Raises NotFoundError.
    """
    pipelines: tuple[PipelinePlan, ...] = (*plan.agents, *plan.tasks, *plan.web_views)
    running = {str(one.ref): one for one in (*pipelines, *plan.joins, *plan.aggregations)}
    found = running.get(resource)
    if found is None:
        raise NotFoundError.among("resource with functions", resource, running)
    scope: dict[str, Any] = {}
    if isinstance(found, PipelinePlan):
        snippets = {one.name: one.function for one in found.pipeline if one.function is not None}
        scope["context"] = dict(context)
        scope = scope if found.init is None else found.init.run(scope)
    else:
        fields = {of: getattr(found, of) for of in found.__dataclass_fields__}
        snippets = {_NAMES.get(of, of): one for of, one in fields.items() if isinstance(one, Snippet)}
    chosen = next(iter(snippets)) if name is None and len(snippets) == 1 else name
    if chosen not in snippets:
        raise NotFoundError.among(f"function of {resource}", chosen or "", snippets)
    function = snippets[chosen].function(scope)

    @functools.wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        return awaited(function(*arguments, **named))

    return called


# Fields of plans that are called otherwise in manifests.
_NAMES = {"mapper": "extractor", "group": "groupBy"}
