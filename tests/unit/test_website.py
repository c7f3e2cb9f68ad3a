"""The site needs no network: it contains the scripts that its theme would load from other hosts."""

from __future__ import annotations

import base64
import hashlib
import io
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from website.scripts import FRAME_WORKER, MERMAID, Script, fetched, unpacked, with_own_script
from website.site import files_of_the_site


@pytest.fixture
def package(tmp_path: Path) -> Path:
    path = tmp_path / "package.tgz"
    with tarfile.open(path, "w:gz") as archive:
        about = tarfile.TarInfo(MERMAID.member)
        about.size = len(b"draw()")
        archive.addfile(about, io.BytesIO(b"draw()"))
    return path


def told(package: Path) -> Script:
    return replace(MERMAID, integrity=base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode())


def test_a_script_is_taken_from_the_package_with_its_checksum_alone(package: Path) -> None:
    assert unpacked(package, told(package)) == b"draw()"
    with pytest.raises(ValueError, match="its SHA-512 is another one"):
        unpacked(package, MERMAID)
    with pytest.raises(KeyError):
        unpacked(package, replace(told(package), member="package/other.js"))


def test_a_script_is_fetched_once_and_without_npm_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert fetched(MERMAID, tmp_path) is None
    (tmp_path / MERMAID.file).write_bytes(b"draw()")
    assert fetched(MERMAID, tmp_path) == b"draw()"


def test_without_its_scripts_the_site_asks_nobody_for_them() -> None:
    files = files_of_the_site()
    assert b"mermaid" not in files["mkdocs.yml"]
    assert b"offline" not in files["mkdocs.yml"]
    with_scripts = files_of_the_site({MERMAID.file: b"draw()", FRAME_WORKER.file: b"work()"})
    assert with_scripts[f"pages/{MERMAID.file}"] == b"draw()"
    for setting in (f"extra_javascript: [{MERMAID.file}]", "name: mermaid", "- offline"):
        assert setting.encode() in with_scripts["mkdocs.yml"]


def test_pages_load_the_script_of_the_site_and_nothing_from_afar(tmp_path: Path) -> None:
    page, deep = tmp_path / "index.html", tmp_path / "reference" / "python.html"
    deep.parent.mkdir()
    for one in (page, deep):
        one.write_text(f'<script src="{FRAME_WORKER.address}"></script>')
    with_own_script(tmp_path, FRAME_WORKER)
    assert page.read_text() == f'<script src="{FRAME_WORKER.file}"></script>'
    assert deep.read_text() == f'<script src="../{FRAME_WORKER.file}"></script>'
    page.write_text('<script src="https://example.org/x.js"></script>')
    with pytest.raises(ValueError, match="from afar"):
        with_own_script(tmp_path, FRAME_WORKER)
