"""Compiles the log store for buckets: ``python -m tests.s3.log_store`` writes its jar. Needs the jars of Delta."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

import pyspark

from kaspr_delta.storage import stores

JAR = stores.LOG_STORE
SOURCE = JAR.with_name("ConditionalLogStore.java")
CLASS = "io/kaspr/delta/ConditionalLogStore.class"
JAVAC = shutil.which("javac")


def compiled() -> bytes:
    """The class file of the source, as ``javac`` of Java 17 makes it."""
    delta = f"io.delta_delta-storage-{importlib.metadata.version('delta-spark')}.jar"
    hadoop = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    jars = [*hadoop, *Path.home().glob(f".ivy2*/jars/{delta}")]
    with tempfile.TemporaryDirectory() as folder:
        options = ["--release", "17", "-g:none", "-cp", ":".join(map(str, jars)), "-d", folder]
        subprocess.run([str(JAVAC), *options, str(SOURCE)], check=True)  # noqa: S603
        return Path(folder, CLASS).read_bytes()


if __name__ == "__main__":
    with zipfile.ZipFile(JAR, "w", zipfile.ZIP_DEFLATED) as jar:
        jar.writestr(zipfile.ZipInfo(CLASS, (2026, 1, 1, 0, 0, 0)), compiled())
