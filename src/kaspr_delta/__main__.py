"""The command ``kaspr-delta``, also as ``python -m kaspr_delta``."""

import os
import signal
import sys


def main() -> None:
    """Run the command line. While it is loaded Ctrl-C ends the process, with the exit code that shells give that."""
    signal.signal(signal.SIGINT, lambda number, _: os._exit(128 + number))
    from kaspr_delta.cli import command_in
    from kaspr_delta.cli import main as run
    from kaspr_delta.cli.quick import QUICK, spare_pandas

    if command_in(sys.argv[1:]) in QUICK:
        spare_pandas()
    run()


if __name__ == "__main__":
    main()
