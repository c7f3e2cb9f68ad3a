"""Files that are not UTF-8. The test writes them: tools that read all YAML of a project would fail on them."""

from __future__ import annotations

from pathlib import Path

from kaspr_delta.spec.loader import load_path


def test_a_file_that_is_not_utf8_is_a_finding_at_its_first_wrong_byte(tmp_path: Path) -> None:
    (tmp_path / "latin1.yaml").write_bytes("apiVersion: é".encode("latin-1"))
    (finding,) = load_path(tmp_path).findings
    assert str(finding).endswith("latin1.yaml:1:13: error: this is not UTF-8 text: byte 0xe9 (save the file as UTF-8)")
