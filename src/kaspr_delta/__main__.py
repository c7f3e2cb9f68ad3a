"""The command ``kaspr-delta``, also as ``python -m kaspr_delta``."""

import os
import signal


def main() -> None:
    """Run the command line. While it is loaded Ctrl-C ends the process, with the exit code that shells give that."""
    signal.signal(signal.SIGINT, lambda number, _: os._exit(128 + number))
    from kaspr_delta.cli import main as run

    run()


if __name__ == "__main__":
    main()
