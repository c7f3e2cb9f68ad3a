"""Compiles the classes for buckets: ``python -m tests.s3.log_store`` writes their jar. Needs the jars of Delta."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

import pyspark

from kaspr_delta.storage import stores

JAR = stores.LOG_STORE
SOURCES = sorted(JAR.parent.glob("*.java"))
JAVAC = shutil.which("javac")


def class_path() -> list[Path]:
    """The jars of Spark and of Delta's log stores."""
    delta = f"io.delta_delta-storage-{importlib.metadata.version('delta-spark')}.jar"
    return [Path(pyspark.__file__).parent / "jars" / "*", *Path.home().glob(f".ivy2*/jars/{delta}")]


def compiled() -> dict[str, bytes]:
    """The class files of the sources by name, as ``javac`` of Java 17 makes them."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join(map(str, class_path()))
        options = ["--release", "17", "-g:none", "-proc:none", "-cp", path, "-d", folder]
        subprocess.run([str(JAVAC), *options, *map(str, SOURCES)], check=True)  # noqa: S603
        files = sorted(Path(folder).rglob("*.class"))
        return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


if __name__ == "__main__":
    with zipfile.ZipFile(JAR, "w", zipfile.ZIP_DEFLATED) as jar:
        for name, content in compiled().items():
            jar.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), content)
