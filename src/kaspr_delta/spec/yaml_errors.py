"""Explain the errors of the YAML parser to the author of the YAML."""

from __future__ import annotations

from kaspr_delta.spec.diagnostics import Finding, Location, Severity

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
        "expected chomping or indentation indicators",
        "text cannot follow '|' or '>' on its line",
        "begin the text on the next line, indented",
    ),
    (
        "expected a comment or a line break",
        "text cannot follow '|' or '>' on its line",
        "begin the text on the next line, indented",
    ),
    ("expected the node content", "a value is missing here", "write one, or remove the key"),
    ("found undefined alias", "'*' refers to an anchor that is not defined above", "quote text that begins with '*'"),
    ("found unexpected end of stream", "the text ends inside quotes", "close the quotes"),
    ("expected ',' or ']'", "the list in '[ ]' is not closed or lacks a ','", "close it with ']'"),
    ("expected ',' or '}'", "the mapping in '{ }' is not closed or lacks a ','", "close it with '}'"),
)


def syntax_finding(problem: str | None, context: str | None, location: Location, text: str, first_line: int) -> Finding:
    """The finding for a syntax error of the parser at ``location``."""
    message, hint = _explained(problem or context or "this is not YAML")
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
