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

from website import site
from website.scripts import FRAME_WORKER, MERMAID, Script, fetched, unpacked, with_own_script


@pytest.fixture
def package(tmp_path: Path) -> Path:
    path = tmp_path / "package.tgz"
    with tarfile.open(path, "w:gz") as archive:
        about = tarfile.TarInfo(MERMAID.member)
        about.size = len(b"draw()")
        archive.addfile(about, io.BytesIO(b"draw()"))
    return path


def with_checksum_of(package: Path) -> Script:
    return replace(MERMAID, integrity=base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode())


def test_a_script_is_unpacked_only_from_a_package_with_its_checksum(package: Path) -> None:
    assert unpacked(package, with_checksum_of(package)) == b"draw()"
    with pytest.raises(ValueError, match="its SHA-512 is another one"):
        unpacked(package, MERMAID)
    with pytest.raises(KeyError):
        unpacked(package, replace(with_checksum_of(package), member="package/other.js"))


def test_without_npm_a_script_is_read_only_from_an_existing_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert fetched(MERMAID, tmp_path) is None
    (tmp_path / MERMAID.file).write_bytes(b"draw()")
    assert fetched(MERMAID, tmp_path) == b"draw()"


def test_the_site_refers_to_scripts_only_if_it_contains_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "_pages", tuple)  # they are made for `test_documents.py`
    files = site.files_of_the_site()
    assert b"mermaid" not in files["mkdocs.yml"]
    assert b"offline" not in files["mkdocs.yml"]
    with_scripts = site.files_of_the_site({MERMAID.file: b"draw()", FRAME_WORKER.file: b"work()"})
    assert with_scripts[f"pages/{MERMAID.file}"] == b"draw()"
    for setting in (f"extra_javascript: [{MERMAID.file}]", "name: mermaid", "- offline"):
        assert setting.encode() in with_scripts["mkdocs.yml"]


def test_pages_load_the_sites_own_script_and_none_from_other_hosts(tmp_path: Path) -> None:
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
