"""Probes of the folder of checkpoints and leases: in a catalog it is a volume."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from kaspr_delta.errors import SetupError
from kaspr_delta.runtime.doctor.bench import Bench, in_words, timed
from kaspr_delta.runtime.doctor.probe import Probe

_RENAMES = 20


def volume(bench: Bench) -> str:
    """Write a file, list its folder, read the file and remove it."""
    path = _folder(bench) / "file"

    def use() -> list[Path]:
        path.write_text(bench.run)
        listed = list(path.parent.glob("file"))
        if path.read_text() != bench.run:
            raise SetupError(f"{path} has another content than was written")
        path.unlink()
        return listed

    listed, seconds = timed(use)
    if listed != [path] or path.exists():
        raise SetupError(f"{path.parent} does not list its files as they are")
    return in_words(seconds)


def rename(bench: Bench) -> str:
    """Replace a file by renaming another one, while a thread reads it: it sees the old or the new content."""
    path = _folder(bench) / "renamed"
    texts = [f"{number} {bench.run}" for number in range(_RENAMES)]
    path.write_text(texts[0])
    over, broken = threading.Event(), set[str]()

    def read() -> None:
        while not over.is_set():
            seen = "no file"
            with contextlib.suppress(FileNotFoundError):
                seen = path.read_text()
            if seen not in texts:
                broken.add(seen or "an empty file")

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        for text in texts:
            other = path.with_name("other")
            other.write_text(text)
            other.replace(path)
            if path.read_text() != text:
                raise SetupError("after a rename the old content was read")
    finally:
        over.set()
        reader.join(bench.patience)
    if broken:
        raise SetupError(f"while files were renamed, {' and '.join(sorted(broken))} was read")
    return f"{_RENAMES} times"


def exclusive_create(bench: Bench) -> str:
    """Create a file that exists."""
    path = _folder(bench) / "created"
    path.unlink(missing_ok=True)
    path.open("x").close()
    with contextlib.suppress(FileExistsError):
        path.open("x").close()
        raise SetupError("a file that exists was created once more")
    return "a second one was refused"


def _folder(bench: Bench) -> Path:
    bench.folder.mkdir(parents=True, exist_ok=True)
    return bench.folder


PROBES = (
    Probe(
        "volume",
        "How long does it take to write, list, read and remove a file beside the checkpoints?",
        volume,
        "checkpoints and leases are kept there",
        "nothing runs from here",
        ("READ VOLUME", "WRITE VOLUME"),
    ),
    Probe(
        "rename",
        "Does a rename replace a file at once, for a reader too?",
        rename,
        "a lease is renewed so",
        "two runs could take one lease: let only one job run a resource",
    ),
    Probe(
        "exclusive create",
        "Is a file created by one process only?",
        exclusive_create,
        "nothing: leases do not rely on it",
        "nothing: leases do not rely on it",
        if_not="note",
    ),
)
