"""One YAML document: plain data with the location of every field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from kaspr_delta.spec.base import FieldPath
from kaspr_delta.spec.diagnostics import Finding, Location, Severity
from kaspr_delta.spec.positions import FieldLocation, Positions
from kaspr_delta.spec.yaml_errors import syntax_finding

_TAG = "tag:yaml.org,2002:"
_ENDS = ("stream end", "end of stream")


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed document: ``data`` is made of dicts, lists, text, numbers, booleans and None."""

    data: Any
    positions: Positions
    findings: tuple[Finding, ...]
    first_line: int
    lines: tuple[str, ...]

    def line(self, number: int) -> str:
        """The text of a line, by its number in the file. Empty for a line outside the document."""
        index = number - self.first_line
        return self.lines[index] if 0 <= index < len(self.lines) else ""


def read_document(text: str, file: str, first_line: int) -> Document:
    """Read the text of one document, whose first line is line ``first_line`` of the file.

    Text that is not YAML gives ``data`` None and a finding that says why.
    """
    reader = _Reader(file, first_line)
    start = Location(file, first_line)
    reader.locations[()] = FieldLocation(start, start)
    yaml = YAML(typ="safe", pure=True)
    data = None
    try:
        node = yaml.compose(text)
        if node is not None:
            data = reader.read(node, ())
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # The parser notices an unclosed quote or bracket at the end of the text; the finding points to where it opens.
        if error.context_mark is not None and any(end in (error.problem or "") for end in _ENDS):
            mark = error.context_mark
        location = Location(file, first_line + mark.line, mark.column + 1) if mark else start
        reader.findings.append(syntax_finding(error.problem, error.context, location, text, first_line))
    except ReaderError as error:
        before = text[: error.position]
        location = Location(file, first_line + before.count("\n"), error.position - before.rfind("\n"))
        message = f"this is not YAML: the control character #x{error.character:02x}"
        reader.findings.append(
            Finding(Severity.ERROR, location, message, "remove it, or write it as '\\x…' in double quotes")
        )
    except YAMLError as error:
        reader.findings.append(Finding(Severity.ERROR, start, f"this is not YAML: {str(error).splitlines()[0]}"))
    except RecursionError:
        reader.findings.append(Finding(Severity.ERROR, start, "this YAML is nested too deeply to be a manifest"))
    return Document(data, Positions(reader.locations), tuple(reader.findings), first_line, tuple(text.split("\n")))


@dataclass(slots=True)
class _Reader:
    """Reads ruamel's nodes, because nodes know their locations and the data made of them does not."""

    file: str
    first_line: int
    locations: dict[FieldPath, FieldLocation] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    _above: list[Node] = field(default_factory=list)

    def read(self, node: Node, path: FieldPath, key: Location | None = None) -> Any:
        start = self._location(node)
        self.locations[path] = FieldLocation(key or start, start, getattr(node, "style", None))
        if any(node is parent for parent in self._above):
            self._error(start, f"'*{node.anchor}' is inside the value that it refers to", "write the value out")
            return None
        self._above.append(node)
        try:
            if isinstance(node, MappingNode):
                return self._mapping(node, path)
            if isinstance(node, SequenceNode):
                return [self.read(element, _below(path, index)) for index, element in enumerate(node.value)]
            return self._scalar(node) if isinstance(node, ScalarNode) else None
        finally:
            self._above.pop()

    def _mapping(self, node: MappingNode, path: FieldPath) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                self._error(self._location(key_node), "a key must be text", "remove the '?' or quote the key")
            elif key_node.tag == f"{_TAG}merge":
                for parent in self._parents(value_node):
                    for name, value in self._mapping(parent, path).items():
                        merged.setdefault(name, value)
            elif key_node.value in own:
                first = self.locations[_below(path, key_node.value)].key
                hint = f"the first one is on line {first.line}; keep one of them"
                self._error(self._location(key_node), f"the key '{key_node.value}' is given twice", hint)
            else:
                location = self._location(key_node)
                own[key_node.value] = self.read(value_node, _below(path, key_node.value), location)
        return merged | own

    def _parents(self, node: Node) -> Iterator[MappingNode]:
        for parent in node.value if isinstance(node, SequenceNode) else [node]:
            if isinstance(parent, MappingNode) and not any(parent is above for above in self._above):
                yield parent
            else:
                self._error(self._location(parent), "'<<' merges mappings only", "refer to a mapping with '*name'")

    def _scalar(self, node: ScalarNode) -> str | int | float | bool | None:
        text: str = node.value
        match str(node.tag).removeprefix(_TAG):
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int":
                return int(text.replace("_", ""), 0 if text.lstrip("+-")[:2].lower() in {"0x", "0o", "0b"} else 10)
            case "float":
                return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
            # Times stay text, as in Kubernetes.
            case "str" | "timestamp":
                return text
            case tag:
                self._error(self._location(node), f"the YAML tag '{tag}' has no meaning here", "remove it")
                return text

    def _location(self, node: Node) -> Location:
        return Location(self.file, self.first_line + node.start_mark.line, node.start_mark.column + 1)

    def _error(self, location: Location, message: str, hint: str) -> None:
        self.findings.append(Finding(Severity.ERROR, location, message, hint))


def _below(path: FieldPath, step: str | int) -> FieldPath:
    return (*path, step)
