"""The reference of the manifests, made from the models: one page per kind, one section per mapping."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kaspr_delta.plan.builder.notes import has_effect
from kaspr_delta.spec.json_schema import Schema, manifest_schema

KINDS = ("KasprApp", "KasprTable", "KasprJoin", "KasprAgent", "KasprWebView", "KasprTask")
_DURATION = "duration"


def kind_page(kind: str) -> str:
    """All fields of a kind of resource."""
    page = _Page(kind, manifest_schema()["$defs"])
    return "\n".join(page.text())


@dataclass
class _Page:
    kind: str
    definitions: dict[str, Schema]
    # Mappings that have or will have a section, each with the place where it was found first.
    sections: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def text(self) -> Iterator[str]:
        yield f"# {self.kind}\n"
        yield "```text"
        yield f"apiVersion: kaspr.io/v1alpha1\nkind: {self.kind}\nmetadata:\n  name: NAME"
        if self.kind != "KasprApp":
            yield "  labels:\n    kaspr.io/app: APPLICATION"
        yield "spec: …\n```\n"
        spec = _references(self.definitions[self.kind]["properties"]["spec"])[0]
        self.sections[spec] = ()
        done = 0
        while done < len(self.sections):  # sections are found while others are written
            name, path = list(self.sections.items())[done]
            yield from self._section(name, path)
            done += 1

    def _section(self, name: str, path: tuple[str, ...]) -> Iterator[str]:
        schema = self.definitions[name]
        yield f"## {_title(path)}\n"
        yield _prose(schema.get("description", "")) + "\n"
        fields = schema.get("properties", {})
        required = schema.get("required", ())
        shown = {one: about for one, about in fields.items() if has_effect(self.kind, (*path, one))}
        if shown:
            yield "| field | type | is |\n|---|---|---|"
        for one, about in shown.items():
            for reference in _references(about):
                self.sections.setdefault(reference, (*path, one, *(["*"] if _holds_several(about) else [])))
            needed = " **required**" if one in required else ""
            default = _default(about)
            meaning = _prose(about.get("description", ""))
            yield f"| `{one}`{needed} | {self._type(about)} | {meaning}{default} |"
        yield ""
        if without := [one for one in fields if one not in shown]:
            yield "Accepted, without effect here: " + ", ".join(f"`{one}`" for one in without) + ".\n"
        if not fields:
            yield "It has no fields.\n"

    def _type(self, about: Schema) -> str:
        kinds = [text for one in _alternatives(about) if (text := self._one_type(one))]
        return " or ".join(dict.fromkeys(kinds)) or "anything"

    def _one_type(self, one: Schema) -> str:  # noqa: PLR0911  one line a kind of schema
        if "$ref" in one:
            section = self.sections[one["$ref"].rpartition("/")[2]]
            return f"[mapping](#{_anchor(_title(section))})"
        if "enum" in one:
            return ", ".join(f"`{value}`" for value in one["enum"])
        if "const" in one:
            return f"`{one['const']}`"
        match one.get("type"):
            case "array":
                return f"list of {self._type(one['items'])}"
            case "string" if "pattern" in one:
                return "" if one["pattern"].startswith("^(") else _DURATION
            case "object":
                named = one.get("additionalProperties")
                return f"by name, {self._type(named)}" if _references(one) and named else "mapping"
            case "null":
                return ""
            case list(kinds):
                return ", ".join(_word(kind) for kind in kinds)
            case str(kind):
                return _word(kind)
        return "" if "pattern" in one else "anything"


def _word(kind: str) -> str:
    return {"string": "text", "integer": "whole number", "boolean": "`true` or `false`"}.get(kind, kind)


def _alternatives(about: Schema) -> list[Schema]:
    """The alternatives that a field allows, one schema each."""
    for several in ("anyOf", "allOf"):
        if several in about:
            return [inner for one in about[several] for inner in _alternatives(one)]
    return [about]


def _references(about: Schema) -> list[str]:
    """The mappings that a field may hold, also in a list or by name."""
    found = []
    for one in _alternatives(about):
        if "$ref" in one:
            found.append(one["$ref"].rpartition("/")[2])
        elif several := _several(one):
            found += _references(several)
    return found


def _several(one: Schema) -> Schema | None:
    """The schema of the elements of a list, or of a mapping by name; None for other fields."""
    named = one.get("additionalProperties")
    return one.get("items") or (named if isinstance(named, dict) else None)


def _holds_several(about: Schema) -> bool:
    return any(_several(one) for one in _alternatives(about))


def _default(about: Schema) -> str:
    value: Any = about.get("default")
    return "" if value in {None, ""} else f"; `{str(value).lower()}` unless given"


def _title(path: tuple[str, ...]) -> str:
    return ".".join(("spec", *path)).replace(".*", "[]")


def _anchor(title: str) -> str:
    """The anchor that GitHub and the builder of the site give to a heading."""
    return re.sub(r"[^\w\s-]", "", title.lower())


def _prose(text: str) -> str:
    """A docstring or description as Markdown for a cell of a table, without references to other code."""
    text = re.sub(r"``(.+?)``", r"`\1`", text)
    text = re.sub(r": see `\w+`", "", text)
    return re.sub(r"(`[^`]*`)|\|", lambda found: found[1] or r"\|", text)
