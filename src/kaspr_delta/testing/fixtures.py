"""Fixtures for pytest and for the command ``test``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kaspr_delta.application import Starting
from kaspr_delta.errors import ManifestError
from kaspr_delta.spec.diagnostics import has_errors
from kaspr_delta.spec.fixture_files import LoadedFixture, load_fixtures
from kaspr_delta.spec.values import Value
from kaspr_delta.testing.run import Result, run


@dataclass(frozen=True, slots=True)
class Fixture:
    """A fixture; its text is the rule that it tests."""

    loaded: LoadedFixture
    values: Mapping[str, Value] = field(default_factory=dict)
    app: str | None = None

    def __str__(self) -> str:
        return self.loaded.spec.test

    def run(self, starting: Starting | None = None) -> Result:
        """Run it; ``starting`` is as in ``Application.open``."""
        return run(self.loaded, values=self.values, app=self.app, starting=starting)

    def check(self) -> None:
        """Run it. Raises AssertionError with all differences if there are any."""
        result = self.run()
        if result.differences:
            raise AssertionError(f"{self.loaded.location}\n{result}")


def fixtures_in(
    path: str | Path, *, values: Mapping[str, Value] | None = None, app: str | None = None
) -> list[Fixture]:
    """The fixtures of a file, or of a folder and its subfolders: files named ``*.test.yaml``, beside the manifests.

    ``values`` and ``app`` are as in ``Application.open``. Raises ManifestError with every mistake in them.
    """
    loaded, findings = load_fixtures(Path(path))
    if has_errors(findings):
        raise ManifestError(findings)
    return [Fixture(one, values or {}, app) for one in loaded]
