"""Values of parameters, ``${NAME}`` in manifests, so that one set of them serves a test, a laptop and production.

``${NAME}`` is a value of the command line, of a file of values, or of the ``values.yaml`` beside the manifests, in this
order; ``${env:NAME}`` is a variable of the environment, ``${warehouse}`` the folder of the warehouse, and ``$${`` the
text ``${``. Python is not text in this sense: nothing in it is replaced.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kaspr_delta.spec.base import Problem
from kaspr_delta.spec.diagnostics import Finding, Location, Severity
from kaspr_delta.spec.limits import LARGEST_NUMBER, LONGEST_VALUE
from kaspr_delta.spec.near import suggestion

Value = str | int | float | bool

BEGINNING = "${"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
WAREHOUSE = "warehouse"
_ENVIRONMENT = "env:"
_PARAMETER = re.compile(r"\$\$\{|\$\{([^{}\n]*)\}?")


@dataclass(frozen=True, slots=True)
class Values:
    """The values of parameters, by name: the ``given`` ones, and the ``defaults`` that lie beside the manifests.

    ``warehouse`` is the folder of the warehouse; empty: it has none.
    """

    given: Mapping[str, Value] = field(default_factory=dict)
    defaults: Mapping[str, Value] = field(default_factory=dict)
    warehouse: str = ""
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    def find(self, name: str) -> Value | Problem:
        """The value of a parameter, or the problem with it."""
        if name.startswith(_ENVIRONMENT):
            variable = name.removeprefix(_ENVIRONMENT)
            missing = Problem(f"the environment has no variable '{variable}'", "set it where the application runs")
            return _short(name, self.environment.get(variable, missing))
        if name == WAREHOUSE:
            hint = "give a path that does not depend on it"
            return self.warehouse or Problem("the warehouse of this command is no folder", hint)
        if not NAME.fullmatch(name):
            hint = f"write ${{NAME}}, ${{env:NAME}} or ${{{WAREHOUSE}}}; $${{ stands for the text {BEGINNING}"
            return Problem(f"'{BEGINNING}{name}' is no parameter", hint)
        known = {**self.defaults, **self.given}
        if name not in known:
            hint = suggestion(name, known) or f"give it, as in --set {name}=…, or in a file of values"
            return Problem(f"the parameter '{name}' has no value", hint)
        return _short(name, known[name])


def _short(name: str, value: Value | Problem) -> Value | Problem:
    if isinstance(value, str) and value.splitlines() not in ([], [value]):
        return Problem(f"the value of '{name}' has more than one line", "a value stands within one line of a manifest")
    if isinstance(value, str) and len(value) > LONGEST_VALUE:
        hint = f"the most are {LONGEST_VALUE:,} characters"
        return Problem(f"the value of '{name}' is too long for a field of a manifest", hint)
    return value


def replaced(text: str, shown: Callable[[str], str]) -> str:
    """The text with ``shown(NAME)`` in the place of each ``${NAME}``, and ``${`` in that of ``$${``."""
    return _PARAMETER.sub(lambda found: BEGINNING if found[1] is None else shown(found[1]), text)


def only_parameter(text: str) -> str | None:
    """The name in a text that is nothing but one parameter.

    >>> only_parameter("${region}"), only_parameter("in ${region}"), only_parameter("${a}${b}")
    ('region', None, None)
    """
    found = _PARAMETER.fullmatch(text)
    return found[1] if found and text.endswith("}") else None


def written(value: Value) -> str:
    """A value within text.

    >>> written(True), written(2.5), written("eu")
    ('true', '2.5', 'eu')
    """
    return value if isinstance(value, str) else json.dumps(value)


def typed(value: Value) -> Value:
    """A value as the whole of a field: text that is a number or a truth value, as JSON writes it, becomes one.

    >>> typed("3"), typed("true"), typed("007"), typed("1.10"), typed("eu")
    (3, True, '007', '1.10', 'eu')
    """
    if not isinstance(value, str):
        return value
    try:
        read = json.loads(value, parse_constant=str)
    except ValueError:
        return value
    is_number = isinstance(read, (int, float)) and abs(read) <= LARGEST_NUMBER
    return read if is_number and json.dumps(read) == value else value


def unused(given: Iterable[str], used: Iterable[str]) -> Iterator[Finding]:
    """A warning for each value of ``--set`` without a parameter in the manifests."""
    there = list(used)
    for name in given:
        if name not in there:
            hint = suggestion(name, there, "they have")
            yield Finding(Severity.WARNING, Location("--set"), f"no manifest has a parameter '{name}'", hint)
