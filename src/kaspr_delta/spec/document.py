"""One YAML document: plain data with the location of every field, and with values in the place of ``${NAME}``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, StreamMark, YAMLError
from ruamel.yaml.events import AliasEvent, ScalarEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from kaspr_delta.spec import limits
from kaspr_delta.spec.base import FieldPath, Problem
from kaspr_delta.spec.diagnostics import FieldLocation, Finding, Location, Positions, Severity
from kaspr_delta.spec.values import BEGINNING, Value, Values, only_parameter, replaced, typed, written

_TAG = "tag:yaml.org,2002:"
# The anchor and the tag before a value.
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)+")
# Characters that JSON has as they are, and YAML only escaped.
_NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
_LONGEST_NUMBER = 40


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A parsed document: ``data`` is made of dicts, lists, text, numbers, booleans and None.

    ``text`` is its text with the values ``used`` in the place of parameters, on the same lines.
    """

    data: Any
    positions: Positions
    findings: tuple[Finding, ...]
    first_line: int
    lines: tuple[str, ...]
    text: str
    used: Mapping[str, Value]

    def line(self, number: int) -> str:
        """The text of a line, by its number in the file. Empty for a line outside the document."""
        index = number - self.first_line
        return self.lines[index] if 0 <= index < len(self.lines) else ""


def read_document(
    text: str, file: str, first_line: int, allowance: limits.Allowance | None = None, values: Values | None = None
) -> YamlDocument:
    """Read the text of one document, whose first line is line ``first_line`` of the file.

    Without ``values``, ``${NAME}`` is a text as any other.
    Text that is not YAML, or that takes more than is left of the allowance, gives ``data`` None and a finding that says
    why.
    """
    reader = _Reader(file, first_line, text, values)
    start = Location(file, first_line)
    reader.locations[()] = FieldLocation(start, start)
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.Composer = partial(_Composer, allowance or limits.Allowance())
    data = None
    try:
        node = yaml.compose(text)
        if node is not None:
            data = reader.read(node, ())
    except _RefusedError as error:
        reader.error(*error.args)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # The parser notices an unclosed quote or bracket at the end of the text; the finding points to where it opens.
        if error.context_mark is not None and re.search("stream end|end of stream", error.problem or ""):
            mark = error.context_mark
        location = reader.location(mark) if mark else start
        reader.findings.append(_syntax_finding(error, location, text, first_line))
    except ReaderError as error:
        before = text[: error.position]
        location = Location(file, first_line + before.count("\n"), error.position - before.rfind("\n"))
        message = f"this is not YAML: the control character #x{error.character:02x}"
        hint = "remove it, or write it as '\\x…' in double quotes"
        reader.findings.append(Finding(Severity.ERROR, location, message, hint))
    except YAMLError as error:
        reader.findings.append(Finding(Severity.ERROR, start, f"this is not YAML: {str(error).splitlines()[0]}"))
    lines = tuple(text.split("\n"))
    positions, findings = Positions(reader.locations), tuple(reader.findings)
    return YamlDocument(data, positions, findings, first_line, lines, reader.replaced(), reader.used)


class _RefusedError(Exception):
    """YAML that is not read any further: its mark, a message and a hint."""


class _Composer(Composer):
    """Makes nodes of a document, within the limits.

    An alias costs as much as the value that it stands for, because that is read again for each of its locations.
    """

    def __init__(self, allowance: limits.Allowance, loader: Any = None) -> None:
        super().__init__(loader)
        self._allowance = allowance
        self.warn_double_anchors = False
        self._allowance.left -= limits.COST_OF_A_DOCUMENT
        self._level = 0
        self._costs: dict[str, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        """The node of the next event. Raises _RefusedError if it takes too much."""
        event = self.parser.peek_event()
        if isinstance(event, AliasEvent):
            # Without this anchor, the composer itself refuses the alias.
            if event.anchor in self.anchors and event.anchor not in self._costs:
                message = f"'*{event.anchor}' is inside the value that it refers to"
                raise _RefusedError(event.start_mark, message, "write the value out")
            self._spend(self._costs.get(event.anchor, 0), event.start_mark)
            return super().compose_node(parent, index)
        if self._level == limits.DEEPEST_VALUE:
            message = f"this value is nested in more than {limits.DEEPEST_VALUE} others"
            raise _RefusedError(event.start_mark, message, "no manifest needs that many levels")
        self._costs.pop(event.anchor, None)
        before = self._allowance.left
        self._spend(
            limits.COST_OF_A_VALUE + (len(event.value) if isinstance(event, ScalarEvent) else 0), event.start_mark
        )
        self._level += 1
        node = super().compose_node(parent, index)
        self._level -= 1
        if event.anchor is not None:
            self._costs[event.anchor] = before - self._allowance.left
        return node

    def _spend(self, cost: int, mark: StreamMark) -> None:
        self._allowance.left -= cost
        if self._allowance.left < 0:
            most = limits.MOST_TO_READ // limits.COST_OF_A_VALUE
            count = f"{most:,} values or {limits.MOST_TO_READ:,} characters"
            message = f"up to here there are more than {count}, aliases written out"
            raise _RefusedError(mark, message, "check fewer manifests at once, and write fewer aliases")


@dataclass(slots=True)
class _Reader:
    """Reads ruamel's nodes, because nodes know their locations and the data made of them does not."""

    file: str
    first_line: int
    text: str
    values: Values | None
    locations: dict[FieldPath, FieldLocation] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    used: dict[str, Value] = field(default_factory=dict)
    # What replaces a part of the text, by the part's beginning and end.
    edits: dict[tuple[int, int], str] = field(default_factory=dict)

    def read(self, node: Node, path: FieldPath, key: Location | None = None) -> Any:
        start = self.location(node.start_mark)
        style = getattr(node, "style", None)
        written = node.value if isinstance(node, ScalarNode) and style is None else None
        is_plain = isinstance(node, ScalarNode) and node.tag != f"{_TAG}null"
        self.locations[path] = FieldLocation(key or start, start, style, written, is_plain)
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.read(element, (*path, index)) for index, element in enumerate(node.value)]
        if isinstance(node, ScalarNode):
            data = self._scalar(node)
            has_values = self.values is not None and isinstance(data, str) and BEGINNING in data
            return self._with_values(node) if has_values and path[-1:] != ("python",) else data
        return None

    def replaced(self) -> str:
        """The text with values in the place of parameters."""
        parts, at = list[str](), 0
        for (start, end), part in sorted(self.edits.items()):
            parts += [self.text[at:start], part]
            at = end
        return "".join([*parts, self.text[at:]])

    def _with_values(self, node: ScalarNode) -> Any:
        """The value of a scalar that has parameters, which are replaced in the document's text too."""
        texts = list[str]()

        def shown(name: str) -> str:
            texts.append(written(self._value(name, node)))
            return texts[-1]

        start, end = node.start_mark.index, node.end_mark.index
        properties = _PROPERTIES.match(self.text, start, end)
        start = start if properties is None else properties.end()  # others refer to the anchor
        source, name = self.text[start:end], only_parameter(node.value) if node.style is None else None
        is_text = properties is not None and "!!str" in properties[0]
        data = typed(self._value(name, node)) if name is not None and not is_text else replaced(node.value, shown)
        # Blanks at the edge of a value would count as indentation of a block.
        if node.style in {"|", ">"} and all(text.isprintable() and text and text == text.strip() for text in texts):
            self.edits[start, end] = replaced(source, shown)
            return data
        # The lines below keep their numbers.
        text = _NOT_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(data, ensure_ascii=False))
        self.edits[start, end] = text + "\n" * source.count("\n")
        return data

    def _value(self, name: str, node: ScalarNode) -> Value:
        """The value of a parameter; empty if it has a problem."""
        assert self.values is not None  # noqa: S101  only then values are looked up
        found = self.values.find(name)
        if isinstance(found, Problem):
            self.error(node.start_mark, found.message, found.hint)
            return ""
        self.used[name] = found
        return found

    def _mapping(self, node: MappingNode, path: FieldPath) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key_node, value_node in node.value:
            at = (*path, key_node.value)
            if not isinstance(key_node, ScalarNode):
                self.error(key_node.start_mark, "a key must be text", "remove the '?' or quote the key")
            elif key_node.tag == f"{_TAG}merge":
                for parent in self._parents(value_node):
                    for name, value in self._mapping(parent, path).items():
                        merged.setdefault(name, value)
            elif key_node.value in own:
                first = self.locations[at].key
                hint = f"the first one is on line {first.line}; keep one of them"
                self.error(key_node.start_mark, f"the key '{key_node.value}' is given twice", hint)
            else:
                location = self.location(key_node.start_mark)
                own[key_node.value] = self.read(value_node, at, location)
        return merged | own

    def _parents(self, node: Node) -> Iterator[MappingNode]:
        for parent in node.value if isinstance(node, SequenceNode) else [node]:
            if isinstance(parent, MappingNode):
                yield parent
            else:
                self.error(parent.start_mark, "'<<' merges mappings only", "refer to a mapping with '*name'")

    def _scalar(self, node: ScalarNode) -> str | int | float | bool | None:
        text: str = node.value
        if len(text) > limits.LONGEST_TEXT:
            message = f"this value has {len(text):,} characters, the most is {limits.LONGEST_TEXT:,}"
            self.error(node.start_mark, message, "put long Python into a package, and import it")
            return ""
        match str(node.tag).removeprefix(_TAG):
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int" | "float" as tag:
                number = _number(text, tag)
                if number is None:
                    shown = text if len(text) <= _LONGEST_NUMBER else f"{text[:_LONGEST_NUMBER]}…"
                    message = f"{shown} is no number of 64 bits"
                    self.error(node.start_mark, message, f'put it in quotes if it is text: "{shown}"')
                return 1 if number is None else number  # an absent one would be a second mistake
            # Times stay text, as in Kubernetes.
            case "str" | "timestamp":
                return text
            case tag:
                self.error(node.start_mark, f"the YAML tag '{tag}' has no meaning here", "remove it")
                return text

    def location(self, mark: StreamMark) -> Location:
        return Location(self.file, self.first_line + mark.line, mark.column + 1)

    def error(self, mark: StreamMark, message: str, hint: str) -> None:
        self.findings.append(Finding(Severity.ERROR, self.location(mark), message, hint))


def _number(text: str, tag: str) -> int | float | None:
    """The number that a text stands for in YAML; None if it has more than 64 bits or, behind a tag, is no number."""
    digits = text.replace("_", "").lower()
    try:
        if tag == "float":
            return float(digits.replace(".inf", "inf").replace(".nan", "nan"))
        number = int(digits, 0 if digits.lstrip("+-")[:2] in {"0x", "0o", "0b"} else 10)
    except ValueError:
        return None
    return number if abs(number) <= limits.LARGEST_NUMBER else None


_BEGINNINGS = (
    (
        "mapping values are not allowed here",
        "this ':' is not expected here",
        "check the indentation of the lines above, or put text that holds ': ' in quotes",
    ),
    (
        "expected <block end>",
        "this line does not fit the indentation of the lines above",
        "fields of one mapping begin in the same column, and '- ' begins an element of a list",
    ),
    (
        "sequence entries are not allowed here",
        "a '- ' is not expected here",
        "elements of a list begin on lines of their own",
    ),
    (
        "expected '<document start>'",
        "this does not belong to the value above",
        "check the indentation, or separate documents with '---'",
    ),
    ("could not find expected ':'", "a key without ':'", "write `key: value`"),
    (
        ("expected chomping or indentation indicators", "expected a comment or a line break"),
        "text cannot follow '|' or '>' on its line",
        "begin the text on the next line, indented",
    ),
    ("expected the node content", "a value is missing here", "write one, or remove the key"),
    ("found undefined alias", "'*' refers to an anchor that is not defined above", "quote text that begins with '*'"),
    ("found unexpected end of stream", "the text ends inside quotes", "close the quotes"),
    ("expected ',' or ']'", "the list in '[ ]' is not closed or lacks a ','", "close it with ']'"),
    ("expected ',' or '}'", "the mapping in '{ }' is not closed or lacks a ','", "close it with '}'"),
)


def _syntax_finding(error: MarkedYAMLError, location: Location, text: str, first_line: int) -> Finding:
    message, hint = _explained(error.problem or error.context or "this is not YAML")
    lines = text.splitlines()
    index = location.line - first_line
    line = lines[index] if 0 <= index < len(lines) else ""
    if line[: location.column].strip() == "" and "\t" in line[: location.column]:
        message, hint = "this line is indented with a tab", "YAML is indented with blanks only"
    return Finding(Severity.ERROR, location, message, hint)


def _explained(problem: str) -> tuple[str, str]:
    for beginning, message, hint in _BEGINNINGS:
        if problem.startswith(beginning):
            return message, hint
    if problem.startswith("found character"):
        character = problem.removeprefix("found character ").split(" that ")[0]
        return f"a value cannot begin with {character}", "put it in quotes"
    return f"this is not YAML: {problem}", ""
