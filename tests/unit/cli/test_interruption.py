from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from kaspr_delta.cli.interruption import Stop

pytestmark = pytest.mark.process


@pytest.mark.parametrize("seconds", [0.2, 0.5, 1])
def test_ctrl_c_while_a_command_is_loaded_prints_no_stack(seconds: float) -> None:
    """Ctrl-C comes after the package is imported: until then Python's own handler prints a stack."""
    command = [sys.executable, "-X", "importtime", "-m", "kaspr_delta", "schema"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603
    assert process.stderr is not None
    while "kaspr_delta.errors" not in process.stderr.readline():  # imported before __main__ runs
        assert process.poll() is None
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=60)
    assert process.returncode in {0, 130}
    assert "Traceback" not in printed


def test_the_exit_code_tells_which_signal_stopped_a_run() -> None:
    assert [Stop(by=number).code for number in (signal.SIGINT, signal.SIGTERM, None)] == [130, 143, 0]
