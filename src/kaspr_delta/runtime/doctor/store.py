"""Probes of the store of a warehouse in a bucket, by throw-away files, without Spark."""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kaspr_delta.errors import SetupError
from kaspr_delta.runtime.doctor.bench import SCRATCH, in_words, timed
from kaspr_delta.runtime.doctor.probe import Answer, Probe, answers
from kaspr_delta.storage.folders import BucketFolder
from kaspr_delta.storage.namespace import Warehouse

# Files whose requests are timed.
_ROUNDS = 5
# Seconds after which a request is given up.
_REQUEST = 4
# Seconds by which two clocks may differ: the store tells whole seconds, and requests take a moment.
_TOLERATED = 60.0
# Seconds that the removal of throw-away files has in any case.
_CLEANING = 5.0


@dataclass
class StoreBench:
    """A folder of throw-away files in a bucket, with a name of its own, so that doctors do not disturb each other.

    ``clock`` is that of this machine.
    """

    root: BucketFolder
    clock: Callable[[], float] = time.time
    run: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def folder(self) -> BucketFolder:
        return self.root / SCRATCH / self.run

    def median(self, work: Callable[[str], object]) -> str:
        """The median time of some work with each of the files."""
        seconds = [timed(lambda name=f"file-{number}": work(name))[1] for number in range(_ROUNDS)]  # type: ignore[misc]
        return in_words(statistics.median(seconds))


def reach(bench: StoreBench) -> str:
    """List the folder of the warehouse."""
    return bench.median(lambda _: bench.root.names())


def write(bench: StoreBench) -> str:
    """Write files."""
    return bench.median(lambda name: bench.folder.write(name, bench.run.encode()))


def read(bench: StoreBench) -> str:
    """Read files."""
    return bench.median(lambda name: _expect(bench.folder, name, bench.run))


def list_after_write(bench: StoreBench) -> str:
    """List a folder right after a file was written to it, and after it was removed."""

    def listed(name: str) -> None:
        new = f"{name}-listed"
        bench.folder.write(new, b"")
        if new not in bench.folder.names():
            raise SetupError(f"{bench.folder} does not list a file that was written before")
        bench.folder.remove(new)
        if new in bench.folder.names():
            raise SetupError(f"{bench.folder} lists a file that was removed before")

    return f"{bench.median(listed)} for a file that is written, listed, removed and listed"


def overwrite(bench: StoreBench) -> str:
    """Read a file right after it was replaced."""

    def replaced(name: str) -> None:
        for text in (f"1 {bench.run}", f"2 {bench.run}"):
            bench.folder.write(name, text.encode())
            _expect(bench.folder, name, text)

    return f"{bench.median(replaced)} for two replacements that are read"


def conditional_create(bench: StoreBench) -> str:
    """Create files that are missing, and once more."""

    def created(name: str) -> None:
        new = f"{name}-created"
        if not bench.folder.write_if_absent(new, b"1"):
            raise SetupError(f"{bench.folder} refuses to create a file that is missing")
        if bench.folder.write_if_absent(new, b"2"):
            raise SetupError("a file that exists was created once more: the store has no conditional PUT")
        _expect(bench.folder, new, "1")

    return f"a second one was refused, {bench.median(created)} for both"


def clock(bench: StoreBench) -> str:
    """Compare the time that the store gives to a file with the clock of this machine."""
    before = bench.clock()
    bench.folder.write("time", b"")
    after = bench.clock()
    at = bench.folder.stamp("time").time
    # The store cuts off fractions of a second.
    ahead = at - after if at > after else min(at + 1 - before, 0.0)
    said = f"{in_words(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} this machine"
    if abs(ahead) > _TOLERATED:
        raise SetupError(f"the store's clock is {said}")
    return said if ahead else "no difference"


def clear(bench: StoreBench) -> str:
    """Remove the throw-away files."""
    bench.folder.remove_all()
    return "removed"


def _expect(folder: BucketFolder, name: str, text: str) -> None:
    if folder.read(name) != text.encode():
        raise SetupError(f"{folder}/{name} has another content than was written")


_NOTHING = "nothing runs"
REACH = Probe(
    "store", "Does the store answer, and list the bucket?", reach, "a look at a table is such a request", _NOTHING
)
PROBES: tuple[Probe[StoreBench], ...] = (
    Probe(
        "write",
        "How long does it take to write a small file?",
        write,
        "each commit and each file of rows is such a request at least",
        _NOTHING,
    ),
    Probe(
        "read",
        "How long does it take to read a small file?",
        read,
        "a commit of another process is read so, twice",
        _NOTHING,
    ),
    Probe(
        "list after write",
        "Does a listing show at once what was written and removed?",
        list_after_write,
        "new commits are seen at the next look",
        "batches could miss commits: do not run here",
    ),
    Probe(
        "overwrite",
        "Is a file that was replaced read with its new content?",
        overwrite,
        "leases are renewed so",
        "two runs could take one lease: do not run here",
    ),
    Probe(
        "conditional create",
        "Is a file created once, also if several try?",
        conditional_create,
        "a commit is such a request: of several writers none loses anything",
        "a run is refused: commits of two processes would replace each other",
    ),
    Probe(
        "clock",
        "How far is the store's clock from that of this machine?",
        clock,
        "commits have the store's time; no order depends on two clocks",
        "the time of a commit is not that of its records; from 15 minutes on S3 refuses requests: set the clock",
        if_not="note",
    ),
)
CLEANED = Probe(
    "clean-up",
    "Are the throw-away files gone?",
    clear,
    "nothing is left",
    f"they stay: remove the folder {SCRATCH}",
    if_not="note",
)


def examine_store(location: Warehouse, seconds: float) -> Iterator[tuple[Probe[StoreBench], Answer]]:
    """Ask all probes of a store, in so many seconds. A store that does not answer is asked once."""
    bench, end = StoreBench(BucketFolder(location.folder, seconds=_REQUEST)), time.monotonic() + seconds
    reached = REACH.answer(bench, end - time.monotonic())
    yield REACH, reached
    if reached.grade == "problem":
        return
    try:
        yield from answers(PROBES, bench, end - time.monotonic())
    finally:
        cleaned = CLEANED.answer(bench, _CLEANING)
    yield CLEANED, cleaned
