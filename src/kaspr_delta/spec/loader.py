"""Load manifests from YAML files, with findings about them.

Nothing here raises for a mistake in a manifest: every mistake becomes a finding with its location, and all are reported
at once. Documents are read one by one, so that a broken one hides no other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kaspr_delta.functions.entrypoint import SnippetError, resolve, resolve_statements
from kaspr_delta.functions.names import bound_names, undefined_names
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.spec.base import FieldPath
from kaspr_delta.spec.diagnostics import Finding, Location, Positions, Severity, has_errors, sorted_findings
from kaspr_delta.spec.document import YamlDocument, read_document
from kaspr_delta.spec.limits import LONGEST_FILE, MOST_FILES, Allowance
from kaspr_delta.spec.manifest import MANIFEST, Manifest
from kaspr_delta.spec.messages import found, manifest_findings
from kaspr_delta.spec.near import suggestion
from kaspr_delta.spec.values import Value, Values
from kaspr_delta.spec.values_file import DEFAULTS, is_of_values, read_values
from kaspr_delta.spec.yaml_text import documents, is_of_tests, shown_path

_INIT = ("spec", "processors", "init")
_SUFFIXES = {".yaml", ".yml"}
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")


@dataclass(frozen=True)
class LoadedManifest:
    """A valid manifest, its own YAML text and the location where the text begins.

    ``snippets`` are its functions, by the path of the field that holds their Python. ``folder`` is the folder of its
    file, to which paths in it are relative; None: it has none, or lies in another one each time.
    """

    manifest: Manifest
    text: str
    location: Location
    positions: Positions = field(repr=False, compare=False)
    snippets: Mapping[FieldPath, Snippet] = field(repr=False, compare=False)
    folder: str | None = field(default=None, compare=False)

    def located(self, path: str) -> str | None:
        """A path or URI of the manifest, which means the same everywhere; None for a relative one without a folder."""
        if _ABSOLUTE.match(path):
            return path
        return None if self.folder is None else os.path.normpath(Path(self.folder, path))


@dataclass(frozen=True)
class LoadedManifests:
    """Loaded manifests and the findings about them.

    ``broken`` are the resources, as (kind, name), whose manifests have errors: they are not missing. ``values`` stood
    for parameters in them, by name.
    """

    manifests: tuple[LoadedManifest, ...]
    findings: tuple[Finding, ...]
    broken: frozenset[tuple[str, str]] = frozenset()
    values: Mapping[str, Value] = field(default_factory=dict)


def load_path(path: Path, origin: str = "", values: Values | None = None) -> LoadedManifests:
    """Load a file, or all ``*.yaml`` and ``*.yml`` of a folder and its subfolders, in sorted order.

    With an ``origin`` the locations are below that, as if the path were called so. Parameters in the manifests have
    their ``values``, or those of the file ``values.yaml`` in the folder; files of values and fixtures are no manifests.
    """

    def shown(one: Path) -> str:
        return Path(origin, one.relative_to(path)).as_posix() if origin else shown_path(one)

    at = Location(shown(path))
    if not path.exists():
        return _refused(at, "there is no such file or folder", "give the path of a manifest, or of a folder of them")
    defaults, problems = _defaults(path if path.is_dir() else path.parent, shown)
    known = replace(values or Values(), defaults=defaults)

    def load(file: Path, at: Location, allowance: Allowance) -> LoadedManifests:
        return _load_file(file, at, allowance, known, None if origin else str(file.absolute().parent))

    if not path.is_dir():
        return together([problems, load(path, at, Allowance())])
    files = sorted(islice(manifest_files(path), MOST_FILES + 1))
    if not files:
        return _refused(at, "this folder holds no manifests", "manifests are files named *.yaml or *.yml")
    if len(files) > MOST_FILES:
        return _refused(at, f"this folder holds more than {MOST_FILES:,} files of YAML", "give a folder of manifests")
    allowance = Allowance()
    return together([problems, *(load(file, Location(shown(file)), allowance) for file in files)])


def _defaults(folder: Path, shown: Callable[[Path], str]) -> tuple[dict[str, Value], LoadedManifests]:
    file = folder / DEFAULTS
    values, findings = read_values(file, shown(file)) if file.is_file() else ({}, ())
    return values, LoadedManifests((), findings)


def load_bytes(
    content: bytes,
    file: str,
    allowance: Allowance | None = None,
    values: Values | None = None,
    folder: str | None = None,
) -> LoadedManifests:
    """Load the documents of a file's content, which must be UTF-8."""
    if len(content) > LONGEST_FILE:
        hint = "a manifest is much smaller; divide the file, or move it out of this folder"
        return _refused(Location(file), f"this file has more than {LONGEST_FILE:,} bytes", hint)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        location = Location(file, before.count(b"\n") + 1, error.start - before.rfind(b"\n"))
        message = f"this is not UTF-8 text: byte 0x{content[error.start]:02x}"
        return _refused(location, message, "save the file as UTF-8")
    return load_text(text, file, allowance=allowance, values=values, folder=folder)


def load_text(  # noqa: PLR0913  each says where the text comes from
    text: str,
    file: str,
    first_line: int = 1,
    *,
    allowance: Allowance | None = None,
    values: Values | None = None,
    folder: str | None = None,
) -> LoadedManifests:
    """Load the documents of a text. ``file`` and ``first_line`` say where the text comes from, for findings.

    Nothing is read after the document that uses up the ``allowance``. Without ``values`` a parameter is text as any
    other. ``folder`` is that of the manifests.
    """
    left = allowance or Allowance()
    read = takewhile(lambda _: left.left > 0, documents(text))
    parts = (_load_document(lines, file, first_line + line, left, values) for line, lines in read)
    loaded = together(parts)
    return replace(loaded, manifests=tuple(replace(one, folder=folder) for one in loaded.manifests))


def together(parts: Iterable[LoadedManifests]) -> LoadedManifests:
    """All manifests and findings of the parts."""
    loaded = tuple(parts)
    return LoadedManifests(
        tuple(manifest for part in loaded for manifest in part.manifests),
        sorted_findings(finding for part in loaded for finding in part.findings),
        frozenset(name for part in loaded for name in part.broken),
        {name: value for part in loaded for name, value in part.values.items()},
    )


def manifest_files(folder: Path) -> Iterator[Path]:
    """The files of a folder and its subfolders that hold manifests, in any order."""
    for parent, folders, files in os.walk(folder):
        # Hidden folders such as .git and .venv hold YAML of other projects.
        folders[:] = [name for name in folders if not name.startswith(".")]
        shown = (name for name in files if not (name.startswith(".") or is_of_values(name) or is_of_tests(name)))
        yield from (Path(parent, name) for name in shown if Path(name).suffix in _SUFFIXES)


def _load_file(path: Path, at: Location, allowance: Allowance, values: Values, folder: str | None) -> LoadedManifests:
    if allowance.left <= 0:
        return LoadedManifests((), ())
    try:
        if not (path.is_file() or path.is_relative_to("/dev/fd") or path == Path("/dev/stdin")):
            return _refused(at, "this is not a file", "remove the device or pipe, or give it another name")
        with path.open("rb") as stream:
            content = stream.read(LONGEST_FILE + 1)
    except OSError as error:
        return _refused(at, f"this file cannot be read: {error.strerror}")
    loaded = load_bytes(content, at.file, allowance, values, folder)
    if not loaded.manifests and not loaded.findings:
        return LoadedManifests((), (Finding(Severity.NOTE, at, "this file holds no manifest"),))
    return loaded


def _refused(location: Location, message: str, hint: str = "") -> LoadedManifests:
    return LoadedManifests((), (Finding(Severity.ERROR, location, message, hint),))


def _load_document(
    lines: list[str], file: str, first_line: int, allowance: Allowance, values: Values | None
) -> LoadedManifests:
    text = "\n".join(lines).rstrip() + "\n"
    document = read_document(text, file, first_line, allowance, values)
    start = document.positions.value(())
    findings = list(document.findings)
    if not isinstance(document.data, dict):
        if not findings:
            message = f"a manifest is a mapping with apiVersion, kind, metadata and spec, found {found(document.data)}"
            findings.append(Finding(Severity.ERROR, start, message))
        return LoadedManifests((), tuple(findings))
    manifest: Manifest | None = None
    try:
        manifest = MANIFEST.validate_python(document.data)
    except ValidationError as error:
        # What a missing value leaves is no second mistake.
        known = {finding.location for finding in findings}
        more = manifest_findings(error.errors(include_url=False), document.data, document.positions)
        findings.extend(finding for finding in more if finding.location not in known)
    snippets: dict[FieldPath, Snippet] = {}
    for path, source, entrypoint in _code_blocks(document.data, ()) if document.data.get("kind") != "KasprApp" else ():
        try:
            snippets[path] = _snippet(path, source, entrypoint, document.positions)
        except SnippetError as error:
            findings.append(
                Finding(Severity.ERROR, _location(error, source, path, document), error.message, error.hint)
            )
    findings.extend(_undefined(snippets, document))
    if manifest is None or has_errors(findings):
        return LoadedManifests((), sorted_findings(findings), frozenset(_named(document.data)), document.used)
    loaded = LoadedManifest(manifest, document.text, Location(file, start.line), document.positions, snippets)
    return LoadedManifests((loaded,), sorted_findings(findings), values=document.used)


def _undefined(snippets: Mapping[FieldPath, Snippet], document: YamlDocument) -> Iterator[Finding]:
    """A warning for each name in a function that is not defined. Steps and responses see the names of ``init``."""
    init = snippets.get(_INIT)
    shared = {"context", *(bound_names(init) if init is not None else ())}
    for path, snippet in snippets.items():
        sees = path == _INIT or path[-1] in {"map", "filter"} or path[:2] == ("spec", "response")
        given = shared if sees else frozenset[str]()
        for name, line, column in undefined_names(snippet, given):
            at = _at(snippet.source, line, column, path, document)
            hint = suggestion(name, {*given, *bound_names(snippet)}) or "define or import it; each use of it fails"
            yield Finding(Severity.WARNING, at, f"nothing defines the name '{name}'", hint)


def _named(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    metadata = data.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if isinstance(data.get("kind"), str) and isinstance(name, str):
        yield data["kind"], name


def _snippet(path: FieldPath, source: str, entrypoint: str | None, positions: Positions) -> Snippet:
    """The snippet of a field. Raises SnippetError if it cannot be used.

    Its file and first line are those of the manifest, so that tracebacks point into the YAML.
    """
    location = positions.location((*path, "python"))
    if path[-2:] == ("processors", "init"):
        return resolve_statements(source, file=location.value.file, first_line=location.text_line)
    return resolve(source, entrypoint, file=location.value.file, first_line=location.text_line)


def _location(error: SnippetError, source: str, path: FieldPath, document: YamlDocument) -> Location:
    if error.line is None:
        return document.positions.value((*path, "entrypoint"))
    return _at(source, error.line, error.column, path, document)


def _at(source: str, line_of_source: int, column: int, path: FieldPath, document: YamlDocument) -> Location:
    """The location of a place in Python, whose line and column count from 1."""
    location = document.positions.location((*path, "python"))
    line = location.text_line + line_of_source - 1
    written = document.line(line).rstrip()
    text = next(iter(source.splitlines()[line_of_source - 1 :]), "").rstrip()
    # If the YAML line is the Python line with indentation, the column is exact.
    if location.style == "|" and written.endswith(text):
        return Location(location.value.file, line, len(written) - len(text) + max(1, column))
    # Folded and quoted text has lost its line breaks.
    return location.value


def _code_blocks(data: object, path: FieldPath) -> Iterator[tuple[FieldPath, str, str | None]]:
    if isinstance(data, list):
        for index, element in enumerate(data):
            yield from _code_blocks(element, (*path, index))
    elif isinstance(data, dict):
        source, entrypoint = data.get("python"), data.get("entrypoint")
        if isinstance(source, str) and source and not (entrypoint is not None and not isinstance(entrypoint, str)):
            yield path, source, entrypoint or None
        for key, value in data.items():
            yield from _code_blocks(value, (*path, key))
