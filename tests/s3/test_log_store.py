"""The jar in the package is made of the source beside it."""

from __future__ import annotations

import subprocess
import zipfile

import pytest

from tests.s3.log_store import CLASS, JAR, JAVAC, compiled


@pytest.mark.slow
@pytest.mark.skipif(JAVAC is None, reason="no compiler of Java 17")
def test_the_jar_of_the_log_store_is_made_of_its_source() -> None:
    version = subprocess.run([str(JAVAC), "-version"], capture_output=True, text=True, check=True).stdout  # noqa: S603
    if not version.startswith("javac 17."):
        pytest.skip("another compiler makes another class file")
    with zipfile.ZipFile(JAR) as jar:
        assert jar.namelist() == [CLASS]
        assert jar.read(CLASS) == compiled()
