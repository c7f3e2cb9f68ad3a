"""The package ``kaspr-delta``, as tasks and the App of a deployment install it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from databricks.bundles.jobs import Library, PythonPyPiLibrary

from kaspr_delta.errors import UsageError
from kaspr_delta.version import VERSION

_BUILT = "dist/*.whl"
# Its name, extras and version; the version may be the address of a wheel.
_REQUIREMENT = re.compile(r"kaspr[-_.]delta\s*(?:\[[^]]*\])?\s*([=<>!~@].*)?", re.IGNORECASE)
_EXTRAS_OF_APPS = "[databricks,serve]"


@dataclass(frozen=True, slots=True)
class Package:
    """A requirement of kaspr-delta, or the path of its wheel: ``dist/*.whl`` is built by the bundle, of its sources."""

    text: str = f"kaspr-delta=={VERSION}"

    @classmethod
    def of(cls, text: str) -> Package:
        """The package that a variable names; the version that deploys if the text is empty. Raises UsageError."""
        if text and not text.endswith(".whl") and not _REQUIREMENT.fullmatch(text):
            raise UsageError(f"variable 'package' is {text!r}, expected kaspr-delta==VERSION or the path of its wheel")
        return cls(text) if text else cls()

    @property
    def library(self) -> Library:
        """The package as a library of a task on a cluster."""
        if _REQUIREMENT.fullmatch(self.text):
            return Library(pypi=PythonPyPiLibrary(package=self.text))
        return Library(whl=self.text)

    def code_in(self, root: Path) -> str:
        """A text that changes with the code: of sources that the bundle builds, their hash, else the package."""
        if self.text != _BUILT:
            return self.text
        digest = hashlib.sha256()
        for file in sorted((root / "src").rglob("*.py")):
            digest.update(file.read_bytes())
        return digest.hexdigest()[:12]

    @property
    def of_apps(self) -> str:
        """The package with all that serves web views, as pip takes it in the folder of the bundle's files.

        >>> Package("kaspr-delta==1.2").of_apps, Package("wheels/kaspr_delta-1.2-py3-none-any.whl").of_apps
        ('kaspr-delta[databricks,serve]==1.2', './wheels/kaspr_delta-1.2-py3-none-any.whl[databricks,serve]')
        """
        requirement = _REQUIREMENT.fullmatch(self.text)
        if requirement is not None:
            return f"kaspr-delta{_EXTRAS_OF_APPS}{requirement[1] or ''}"
        # A wheel that the bundle builds does not lie among its files, but the sources do.
        place = "." if self.text == _BUILT else f"./{self.text.removeprefix('./')}"
        return f"{place}{_EXTRAS_OF_APPS}"
