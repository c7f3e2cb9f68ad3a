"""Third-party scripts that are part of the site. Its theme would load them from the network."""

from __future__ import annotations

import base64
import hashlib
import posixpath
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Script:
    """A file of an npm package. ``integrity`` is the SHA-512 of the package in npm's registry.

    ``address`` is the URL from which the theme would load it.
    """

    package: str
    version: str
    integrity: str
    member: str
    address: str

    @property
    def file(self) -> str:
        """Its file name in the site."""
        return f"{self.package}-{self.version}.js"


MERMAID = Script(
    "mermaid",
    "12.3.0",
    "4113TdXeLAsMruJ79OpFL5O8+LTFXhQqZ260rF3tgUmiNAtRm4Uume04I+65PRN6yZ69J4f8rVYWW8zRk65UYw==",
    "package/dist/mermaid.min.js",
    "https://unpkg.com/mermaid@12/dist/mermaid.min.js",
)
"""Draws the pictures."""

FRAME_WORKER = Script(
    "iframe-worker",
    "1.0.4",
    "roeaaI+Lg1LJNfgpCjoRe/+WzEjy9+Z08LoEvu85MCPbBjwm+qXz8Ag5U05lHa6V1CysZyGzE0SOkAtSUA5q7Q==",
    "package/shim/index.js",
    "https://unpkg.com/iframe-worker/shim",
)
"""A script for the search of a site that is opened from a disk."""


def fetched(script: Script, cache: Path) -> bytes | None:
    """A script, from the cache or fetched by npm into it; None if npm is missing or cannot fetch it.

    Raises ValueError if the package is not the expected one.
    """
    kept = cache / script.file
    if kept.is_file():
        return kept.read_bytes()
    npm = shutil.which("npm")
    if npm is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        named = f"{script.package}@{script.version}"
        try:
            command = [npm, "pack", "--silent", named, "--pack-destination", folder]
            subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS)  # noqa: S603
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return None
        text = unpacked(next(Path(folder).glob("*.tgz")), script)
    cache.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(text)
    return text


def unpacked(package: Path, script: Script) -> bytes:
    """A script out of its package. Raises ValueError if the package has another checksum or lacks the script."""
    if base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode() != script.integrity:
        msg = f"{package.name} is not {script.package} {script.version}: its SHA-512 is another one"
        raise ValueError(msg)
    with tarfile.open(package) as archive:
        found = archive.extractfile(script.member)
        if found is None:
            msg = f"{package.name} has no {script.member}"
            raise ValueError(msg)
        return found.read()


def with_own_script(site: Path, script: Script) -> None:
    """Make the built pages load a script from the site. Raises ValueError if a page loads from the network."""
    for page in site.rglob("*.html"):
        here = posixpath.relpath(script.file, page.parent.relative_to(site).as_posix())
        text = page.read_text().replace(f'src="{script.address}"', f'src="{here}"')
        if 'src="http' in text:
            msg = f"{page} loads something from afar"
            raise ValueError(msg)
        page.write_text(text)
