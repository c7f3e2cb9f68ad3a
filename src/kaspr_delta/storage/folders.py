"""Folders on this machine and in buckets, with the few verbs that files beside tables need, and logs of tables.

A name may have slashes. A folder in a bucket exists as long as there is a file in it. Only this module knows how files
are reached; ``storage.stores`` knows how Spark and delta-rs reach them.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol
from urllib.parse import urlsplit

from kaspr_delta.errors import SetupError
from kaspr_delta.serde.instants import microseconds
from kaspr_delta.storage.store_problems import NO_BUCKET, store_error
from kaspr_delta.storage.stores import store_of

if TYPE_CHECKING:
    from obstore.store import ObjectStore
    from typing_extensions import Self


class Stamp(NamedTuple):
    """The time at which a file was written, in seconds, and an identity that another file of its name has not.

    ``is_empty``: it has no bytes.
    """

    time: float
    identity: str
    is_empty: bool = False


class File(NamedTuple):
    """The size of a file in bytes, and the time at which it was written, in nanoseconds."""

    size: int
    at: int


# A file is copied in parts of about so many bytes; in a bucket, a file of more of them is uploaded in parts.
_PART = 8 << 20
# Parts of a file that are uploaded at once, while the next one is read.
_UPLOADS = 2
LOG_FOLDER = "_delta_log"
"""The folder in that of a Delta table with its commits."""
# The names of folders that are being removed.
_REMOVED = ".removed-"
# Files that one request removes.
_AT_ONCE = 1_000


class Folder(Protocol):
    """A folder. Raises OSError, and StoreError where a store does not answer or refuses."""

    is_here: ClassVar[bool]
    """Whether the folder is on this machine or mounted, so that its names can be asked for one by one."""

    writes_if_absent: ClassVar[bool]
    """Whether ``write_if_absent`` is atomic between all machines."""

    @property
    def name(self) -> str:
        """The last part of its place."""

    @property
    def for_spark(self) -> str:
        """Its place as Spark names it; ``str`` gives it as people and delta-rs do."""

    def __truediv__(self, name: str) -> Self:
        """The folder of this name in it."""

    def has_file(self, name: str) -> bool:
        """Whether a file is there."""

    def has_folder(self, name: str) -> bool:
        """Whether a folder is there."""

    def names(self, name: str = ".") -> list[str]:
        """The names of files and folders in a folder of it, in no order; none where there is no such folder."""

    def stamps(self, name: str, after: str = "") -> dict[str, Stamp]:
        """The stamps of the files in a folder of it whose names sort behind ``after``; in a bucket also of those below.

        In a bucket it is one request for a thousand files. The times may be finer there than those of ``stamp``.
        """

    def stamp(self, name: str) -> Stamp:
        """The stamp of a file. Raises FileNotFoundError."""

    def files(self) -> dict[str, File]:
        """All files in it and in the folders below, by their names from here."""

    def read(self, name: str) -> bytes:
        """The content of a file. Raises FileNotFoundError."""

    def parts(self, name: str) -> Iterator[bytes]:
        """The content of a file of any size, in parts. Raises FileNotFoundError."""

    def open(self, name: str) -> IO[bytes]:
        """A file, opened to read parts of it. Raises FileNotFoundError."""

    def make(self) -> None:
        """Make the folder, with those above it."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file, or replace it: readers see the old content or the new one. The folder above is there."""

    def write_if_absent(self, name: str, content: bytes) -> bool:
        """Write a file unless it is there. Returns whether it was written."""

    def writing(self, name: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        """A new file, to be written in parts."""

    def write_parts(self, name: str, parts: Iterable[bytes], at: int) -> None:
        """Write a file of any size, or replace it, with the folders above: readers see it when it is whole.

        ``at`` is the time at which it was written, as in ``files``; in a bucket the store sets its own.
        """

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    def remove_all(self) -> None:
        """Remove the folder with everything in it, if it is there."""

    def remove_table(self) -> None:
        """Remove the folder of a Delta table, if it is there. What a kill leaves is no table, or an older version.

        Files that a kill has left on this machine are removed with the next table.
        """


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """Implements Folder on this machine, or on a volume that is mounted."""

    path: Path

    is_here: ClassVar[bool] = True
    writes_if_absent: ClassVar[bool] = False  # not on a volume

    def __str__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def for_spark(self) -> str:
        return str(self.path)

    def __truediv__(self, name: str) -> LocalFolder:
        return LocalFolder(self.path / name)

    def has_file(self, name: str) -> bool:
        return (self.path / name).exists()

    def has_folder(self, name: str) -> bool:
        return (self.path / name).is_dir()

    def names(self, name: str = ".") -> list[str]:
        try:
            return os.listdir(self.path / name)  # noqa: PTH208  names, not paths
        except FileNotFoundError:
            return []

    def stamps(self, name: str, after: str = "") -> dict[str, Stamp]:
        inside = self / name
        return {file: inside.stamp(file) for file in inside.names() if file > after and (inside.path / file).is_file()}

    def stamp(self, name: str) -> Stamp:
        found = (self.path / name).stat()
        return Stamp(found.st_mtime, f"{found.st_ino} {found.st_mtime_ns}", found.st_size == 0)

    def files(self) -> dict[str, File]:
        found = dict[str, File]()
        for folder, _, names in os.walk(self.path):
            for path in (Path(folder, name) for name in names):
                with contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
                    about = path.stat()
                    found[path.relative_to(self.path).as_posix()] = File(about.st_size, about.st_mtime_ns)
        return found

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def parts(self, name: str) -> Iterator[bytes]:
        with self.open(name) as file:
            while part := file.read(_PART):
                yield part

    def open(self, name: str) -> IO[bytes]:
        return (self.path / name).open("rb")

    def make(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)

    def write(self, name: str, content: bytes) -> None:
        new = self.path / f"{name}.{uuid.uuid4().hex}"
        self.path.mkdir(exist_ok=True)
        try:
            new.write_bytes(content)
            new.replace(self.path / name)
        finally:
            new.unlink(missing_ok=True)

    def write_if_absent(self, name: str, content: bytes) -> bool:
        self.path.mkdir(exist_ok=True)
        try:
            with (self.path / name).open("xb") as file:
                file.write(content)
        except FileExistsError:
            return False
        return True

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        self.make()
        with (self.path / name).open("wb") as file:
            yield file

    def write_parts(self, name: str, parts: Iterable[bytes], at: int) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{uuid.uuid4().hex}.unfinished")
        try:
            with new.open("xb") as file:
                file.writelines(parts)
            os.utime(new, ns=(at, at))
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def remove_all(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.path)

    def remove_table(self) -> None:
        removed = self.path.with_name(f"{_REMOVED}{uuid.uuid4().hex}")
        try:
            self.path.rename(removed)
        except OSError:  # it is not there, or a volume renames no folders
            removed = self.path
        for left in set(self.path.parent.glob(f"{_REMOVED}*")) - {removed}:
            shutil.rmtree(left, ignore_errors=True)
        LocalFolder(removed).remove_all()


@dataclass(frozen=True, slots=True)
class BucketFolder:
    """Implements Folder in a bucket, by obstore, which finds credentials and endpoint in the environment.

    A request that fails is given up after so many ``seconds``; 0: as late as obstore does, after minutes.
    """

    uri: str
    seconds: int = field(default=0, kw_only=True, compare=False)

    is_here: ClassVar[bool] = False
    writes_if_absent: ClassVar[bool] = True

    def __str__(self) -> str:
        return self.uri

    @property
    def name(self) -> str:
        return self.uri.rpartition("/")[2]

    @property
    def for_spark(self) -> str:
        return store_of(self.uri).for_spark(self.uri)

    def __truediv__(self, name: str) -> BucketFolder:
        return replace(self, uri=f"{self.uri}/{name}")

    def has_file(self, name: str) -> bool:
        with contextlib.suppress(FileNotFoundError):
            self.stamp(name)
            return True
        return False

    def has_folder(self, name: str) -> bool:
        with _library(self.uri) as obstore:
            return any(obstore.list(self._store, f"{self._at(name)}/", chunk_size=1))

    def names(self, name: str = ".") -> list[str]:
        prefix = self._at(name)
        with _library(self.uri) as obstore:
            found = obstore.list_with_delimiter(self._store, prefix)
        paths = {*found["common_prefixes"], *(one["path"] for one in found["objects"])} - {prefix}
        return [path.rstrip("/").rpartition("/")[2] for path in paths]

    def stamps(self, name: str, after: str = "") -> dict[str, Stamp]:
        prefix = f"{self._at(name)}/"
        with _library(self.uri) as obstore:
            found = [one for some in obstore.list(self._store, prefix, offset=prefix + after) for one in some]
        return {one["path"].removeprefix(prefix): _stamp_of(one) for one in found}

    def stamp(self, name: str) -> Stamp:
        with _library(self.uri) as obstore:
            return _stamp_of(obstore.head(self._store, self._at(name)))

    def files(self) -> dict[str, File]:
        prefix = f"{self._at('.')}/".lstrip("/")
        with _library(self.uri) as obstore:
            found = [one for some in obstore.list(self._store, prefix) for one in some]
        return {one["path"].removeprefix(prefix): File(one["size"], _nanoseconds(one)) for one in found}

    def read(self, name: str) -> bytes:
        with _library(self.uri) as obstore:
            return bytes(obstore.get(self._store, self._at(name)).bytes())

    def parts(self, name: str) -> Iterator[bytes]:
        with _library(self.uri) as obstore:
            yield from map(bytes, obstore.get(self._store, self._at(name)).stream(min_chunk_size=_PART))

    def open(self, name: str) -> IO[bytes]:
        return io.BytesIO(self.read(name))

    def make(self) -> None:
        """A bucket has no empty folders."""

    def write(self, name: str, content: bytes) -> None:
        with _library(self.uri) as obstore:
            obstore.put(self._store, self._at(name), content)

    def write_if_absent(self, name: str, content: bytes) -> bool:
        with _library(self.uri) as obstore:
            try:
                obstore.put(self._store, self._at(name), content, mode="create")
            except obstore.exceptions.AlreadyExistsError:
                return False
        return True

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        # Arrow takes no file of obstore: it asks such a file whether it is closed, and misreads the answer.
        with tempfile.TemporaryFile() as file, _library(self.uri) as obstore:
            yield file
            file.seek(0)
            obstore.put(self._store, self._at(name), file)

    def write_parts(self, name: str, parts: Iterable[bytes], at: int) -> None:  # noqa: ARG002  the store has its own
        with _library(self.uri) as obstore:
            # Nothing is there until it is closed, which an error prevents.
            writer = obstore.open_writer(self._store, self._at(name), buffer_size=_PART, max_concurrency=_UPLOADS)
            for part in parts:
                writer.write(part)
            writer.close()

    def remove(self, name: str) -> None:
        with _library(self.uri) as obstore:
            obstore.delete(self._store, self._at(name))

    def remove_all(self) -> None:
        with _library(self.uri) as obstore:
            for some in obstore.list(self._store, f"{self._at('.')}/"):
                obstore.delete(self._store, [one["path"] for one in some])

    def remove_table(self) -> None:
        with _library(self.uri) as obstore:
            log = obstore.list(self._store, f"{self._at(LOG_FOLDER)}/")
            # The newest commit before the others.
            paths = sorted((one["path"] for some in log for one in some), reverse=True)
            for first in range(0, len(paths), _AT_ONCE):
                obstore.delete(self._store, paths[first : first + _AT_ONCE])
        self.remove_all()

    def _at(self, name: str) -> str:
        """The key of a name in the bucket."""
        inside = urlsplit(self.uri).path.strip("/")
        return inside if name == "." else f"{inside}/{name}".strip("/")

    @property
    def _store(self) -> ObjectStore:
        url = urlsplit(self.uri)
        return _opened(f"{url.scheme}://{url.netloc}", self.seconds)


def discard(folder: Folder) -> None:
    """Remove a folder that nobody needs any more, as far as that is possible."""
    with contextlib.suppress(OSError):
        folder.remove_all()


def create_once(folder: Folder, name: str, content: bytes) -> bool:
    """Write a file unless it is there. Returns whether it was written.

    Raises SetupError for a store where that overwrites the file: in it commits of two processes would replace each
    other.
    """
    if not folder.write_if_absent(name, content):
        return False
    if folder.write_if_absent(name, content):
        raise SetupError(f"{folder} is in a store without conditional PUT, where commits would be lost: choose another")
    return True


def _stamp_of(found: Any) -> Stamp:
    """The stamp of a file by the metadata of obstore."""
    identity = f"{found['last_modified']} {found['e_tag']}"
    return Stamp(found["last_modified"].timestamp(), identity, found["size"] == 0)


def _nanoseconds(found: Any) -> int:
    """The time of a file by the metadata of obstore."""
    return microseconds(found["last_modified"]) * 1_000


@lru_cache(maxsize=16)
def _opened(bucket: str, seconds: int) -> ObjectStore:
    from obstore.store import from_url

    return from_url(bucket, **store_of(bucket).client(seconds))


@contextlib.contextmanager
def _library(uri: str) -> Iterator[Any]:
    """The library that reaches a store, whose errors become a StoreError in one line."""
    try:
        import obstore
        from obstore.exceptions import BaseError
    except ImportError as error:
        raise SetupError("obstore is not installed: pip install 'kaspr-delta[s3]'") from error
    try:
        yield obstore
    except BaseError as error:
        raise store_error(uri, error) from error
    except FileNotFoundError as error:
        if NO_BUCKET in str(error):
            raise store_error(uri, error) from error
        raise
