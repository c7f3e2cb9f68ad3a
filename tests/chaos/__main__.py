"""``python -m tests.chaos``: hunts for histories that fail, or replays one."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.chaos.history import History
from tests.chaos.hunt import hunting

_KEPT = Path(__file__).parents[2] / "build" / "chaos"


def main() -> int:
    """The exit code: 0 if no history failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Random histories, judged.")
    parser.add_argument("--minutes", type=float, default=10, help="how long to begin histories (10)")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the first history (1); the others follow")
    parser.add_argument("--histories", type=int, help="how many at most")
    parser.add_argument("--shrink", type=float, default=5, help="the most minutes to shrink one (5)")
    parser.add_argument("--kept", type=Path, default=_KEPT, help="where those that fail are written (build/chaos)")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="live through this history instead")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # unmounts the disk and ends the child
    with tempfile.TemporaryDirectory(prefix="kaspr-delta-chaos-") as folder:
        say = partial(print, flush=True)
        with hunting(Path(folder), arguments.kept, say, patience=60 * arguments.shrink) as hunt:
            if arguments.replay is not None:
                _, failure = hunt.live(History.read(arguments.replay))
                return int(failure is not None)
            return int(bool(hunt.hunt(arguments.seed, arguments.minutes, arguments.histories)))


if __name__ == "__main__":
    sys.exit(main())
