"""The pipeline of an agent, a web view or a task."""

from __future__ import annotations

import keyword
from collections.abc import Iterator

from pydantic import Field

from kaspr_delta.spec.base import Problem, Spec, Text, optional
from kaspr_delta.spec.near import suggestion
from kaspr_delta.spec.resource import Code
from kaspr_delta.spec.topics import TopicSend


class TableReference(Spec):
    """A table handed to a function as the parameter ``paramName``."""

    name: Text = Field(description="the name of a KasprTable, or of a join of two tables, whose result it gets")
    param_name: Text = Field(description="the parameter by which the function receives the table")

    def problems(self) -> Iterator[Problem]:
        name = self.param_name
        if not (name.isascii() and name.isidentifier()) or keyword.iskeyword(name):
            hint = "a Python identifier such as 'orders': letters, digits and '_', no keyword"
            yield Problem(f"'{name}' cannot be a parameter name", hint, ("paramName",))


class Operation(Spec):
    """A named step: one of ``map``, ``filter`` and ``topicSend``, or ``map`` and then ``topicSend``."""

    name: Text = Field(description="the name by which the pipeline calls the operation")
    tables: tuple[TableReference, ...] = Field(default=(), description="the tables its function is given")
    map: Code | None = optional("a Python function of the value; its result is the next value")
    filter: Code | None = optional("a Python function of the value that says whether it goes on")
    topic_send: TopicSend | None = optional("sends the value to a topic")

    def problems(self) -> Iterator[Problem]:
        of = {"map": self.map, "filter": self.filter, "topicSend": self.topic_send}
        kinds = [kind for kind, given in of.items() if given is not None]
        if not kinds:
            yield Problem(f"operation '{self.name}' does nothing", "give it one of 'map', 'filter' and 'topicSend'")
        if len(kinds) > 1 and kinds != ["map", "topicSend"]:
            message = f"operation '{self.name}' has {' and '.join(repr(kind) for kind in kinds)}, but may have only one"
            yield Problem(message, "make an operation of each and name both in the pipeline", (kinds[1],))
        seen: set[str] = set()
        for index, table in enumerate(self.tables):
            if table.param_name in seen:
                message = f"operation '{self.name}' has two tables under the parameter '{table.param_name}'"
                yield Problem(message, "give each table its own paramName", ("tables", index, "paramName"))
            seen.add(table.param_name)


class Processors(Spec):
    """Operations, and the pipeline that says in which order they run. ``init`` runs once before them."""

    pipeline: tuple[Text, ...] | None = optional("the operations by name, in their order")
    init: Code | None = optional("Python that runs once before; its names are there in functions")
    operations: tuple[Operation, ...] = Field(default=(), description="the steps that the pipeline names")

    def problems(self) -> Iterator[Problem]:
        names = [operation.name for operation in self.operations]
        if names and self.pipeline is None:
            yield Problem("'pipeline' is missing, so no operation would run", f"add `pipeline: [{', '.join(names)}]`")
        for index, name in enumerate(self.pipeline or ()):
            if name not in names:
                hint = suggestion(name, names, "defined are") or "define it under 'operations'"
                yield Problem(f"the pipeline names '{name}', which is no operation", hint, ("pipeline", index))

    def steps(self) -> Iterator[tuple[int, Operation]]:
        """The operations in order of execution, each with its index in ``operations``.

        A later operation of the same name replaces the earlier one, as in Kaspr.
        """
        by_name = {operation.name: (index, operation) for index, operation in enumerate(self.operations)}
        for name in self.pipeline or ():
            yield by_name[name]
