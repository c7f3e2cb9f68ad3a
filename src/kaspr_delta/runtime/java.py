"""Find the Java that Spark runs on, and raise one clear sentence if it is missing or has a wrong version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from kaspr_delta.errors import SetupError

# Spark 4 needs 17 or newer; 25 is the newest version that it names.
SUPPORTED = range(17, 26)
_ADVICE = "install a JDK 17 (Debian: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17)"


def java_command() -> str:
    """The ``java`` that Spark will start. Raises SetupError if there is none."""
    home = os.environ.get("JAVA_HOME")
    if home:
        command = os.path.join(home, "bin", "java")  # noqa: PTH118
        if os.access(command, os.X_OK):
            return command
        raise SetupError(f"JAVA_HOME is {home}, but {command} is not there: correct or unset JAVA_HOME, or {_ADVICE}")
    found = shutil.which("java")
    if found is None:
        raise SetupError(f"Java is not installed, and local Spark needs it: {_ADVICE}")
    return found


def check_java() -> int:
    """The major version of Java. Raises SetupError if Java is missing, does not start, or has a wrong version."""
    command = java_command()
    try:
        # The command is the java of JAVA_HOME or PATH, and its arguments are fixed.
        answer = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"{command} does not start ({error}): {_ADVICE}") from error
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if match is None:
        raise SetupError(f"{command} does not tell its version: {_ADVICE}")
    major = int(match[1])
    if major not in SUPPORTED:
        raise SetupError(
            f"{command} is Java {major}, and Spark needs {SUPPORTED.start} or newer: {_ADVICE}, or set JAVA_HOME to one"
        )
    return major
