"""Load fixtures from the YAML files beside manifests, with findings about them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from kaspr_delta.spec.diagnostics import Finding, Location, Severity, has_errors, sorted_findings
from kaspr_delta.spec.document import YamlDocument, read_document
from kaspr_delta.spec.fixture import Fixture
from kaspr_delta.spec.limits import Allowance
from kaspr_delta.spec.messages import found, spec_findings
from kaspr_delta.spec.values_file import is_of_values
from kaspr_delta.spec.yaml_text import documents, is_of_tests, shown_path, text_of_file


@dataclass(frozen=True, slots=True)
class LoadedFixture:
    """A fixture of the application whose manifests are in ``folder``, beside its file."""

    spec: Fixture
    location: Location
    folder: Path

    def __str__(self) -> str:
        return self.spec.test


def load_fixtures(path: Path) -> tuple[tuple[LoadedFixture, ...], tuple[Finding, ...]]:
    """The fixtures of a file, or of all ``*.test.yaml`` of a folder and its subfolders, and the findings about them."""
    loaded, findings = list[LoadedFixture](), list[Finding]()
    for file in sorted(_files(path)) if path.is_dir() else [path]:
        name = shown_path(file)
        text = text_of_file(file, Location(name), "this file", "put its rows into files of their own")
        if isinstance(text, Finding):
            findings.append(text)
            continue
        allowance = Allowance()
        for line, lines in documents(text):
            document = read_document("\n".join(lines).rstrip() + "\n", name, 1 + line, allowance, None)
            spec, problems = _fixture(document)
            findings += problems
            if spec is not None:
                loaded.append(LoadedFixture(spec, document.positions.value(()), file.parent))
    return tuple(loaded), sorted_findings(findings)


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(parent, name) for name in files if is_of_tests(name) and not is_of_values(name))


def _fixture(document: YamlDocument) -> tuple[Fixture | None, tuple[Finding, ...]]:
    if has_errors(document.findings):
        return None, document.findings
    if not isinstance(document.data, dict):
        message = f"a fixture is a mapping with test, given, when and then, found {found(document.data)}"
        return None, (Finding(Severity.ERROR, document.positions.value(()), message),)
    try:
        return Fixture.model_validate(document.data), document.findings
    except ValidationError as error:
        return None, tuple(spec_findings(Fixture, error.errors(include_url=False), document.positions))
