"""``kaspr-delta init``: a repository for an application, by the template that ``databricks bundle init`` takes too."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from kaspr_delta.errors import NotFoundError, UsageError

_PROJECT = Path(__file__).parents[1] / "project"
_TEMPLATE = _PROJECT / "template"
_RENDERED = ".tmpl"

Values = Mapping[str, str]


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the application and of its folder.")],
    part: Annotated[
        list[str] | None,
        typer.Option(
            "--part",
            metavar="PART",
            help="Make this part and others that are named, without questions: topics, join, agent, view or task.",
        ),
    ] = None,
    catalog: Annotated[
        str | None, typer.Option("--catalog", metavar="NAME", help="The catalog of its tables on Databricks.")
    ] = None,
) -> None:
    """Make a repository for an application: manifests, sample data, tests, and what deploys it to Databricks.

    On a terminal it asks for what no option says; elsewhere it makes all parts. It writes a folder NAME and replaces no
    file. `databricks bundle init` makes the same of the template in the repository of kaspr-delta.

    For example:

        kaspr-delta init shop
        kaspr-delta init shop --part topics --part join --catalog sales
    """
    schema = json.loads((_PROJECT / "databricks_template_schema.json").read_text(encoding="utf-8"))
    properties: dict[str, Any] = schema["properties"]
    values = _answers(properties, {"name": name, "catalog": catalog, **_parts(properties, part)})
    files = dict(rendered(values))
    there = [path for path in files if path.exists()]
    if there:
        raise UsageError(f"nothing was written: {there[0]} exists, and {name} would replace it")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    typer.echo(f"{name} has {len(files)} files, and README.md says how to go on:\n")
    typer.echo(f"  cd {name}\n  kaspr-delta run bundles/{name}")


def rendered(values: Values) -> Iterator[tuple[Path, str]]:
    """The files of the template with the values in them, without the parts whose value is ``no``."""
    for source in sorted(path for path in _TEMPLATE.rglob("*") if path.is_file()):
        # A part is the files that have its name.
        part = source.name.partition(".")[0].removeprefix("test_")
        if source.parent == _TEMPLATE or values.get(part) == "no":
            continue
        text = source.read_text(encoding="utf-8")
        path = _filled(source.relative_to(_TEMPLATE).as_posix(), values)
        is_template = path.endswith(_RENDERED)
        yield Path(path.removesuffix(_RENDERED)), _filled(text, values) if is_template else text


def _filled(text: str, values: Values) -> str:
    return re.sub(r"{{\.(\w+)}}", lambda name: values[name[1]], text)


def _parts(properties: Mapping[str, Any], named: Iterable[str] | None) -> Mapping[str, str]:
    """The parts and whether they are wanted; nothing if none is named. Raises UsageError."""
    if not named:
        return {}
    parts = [name for name, one in properties.items() if "enum" in one]
    for unknown in set(named).difference(parts):
        raise UsageError(str(NotFoundError.among("part", unknown, parts)))
    return {part: "yes" if part in named else "no" for part in parts}


def _answers(properties: Mapping[str, Any], given: Mapping[str, str | None]) -> Values:
    """A value for each property: given, or answered on a terminal, or its default. Raises UsageError."""
    values: dict[str, str] = {}
    for name, one in properties.items():
        value = given.get(name)
        if value is None:
            asked = sys.stdin.isatty() and "skip_prompt_if" not in one
            value = _asked(one) if asked else one["default"]
        if not re.fullmatch(one.get("pattern", ".*"), value):
            raise UsageError(f"{value!r} is refused: {one['pattern_match_failure_message']}")
        values[name] = value
    return values


def _asked(one: Mapping[str, Any]) -> str:
    if "enum" in one:
        return "yes" if typer.confirm(one["description"], default=one["default"] == "yes") else "no"
    answer: str = typer.prompt(one["description"], default=one["default"])
    return answer
