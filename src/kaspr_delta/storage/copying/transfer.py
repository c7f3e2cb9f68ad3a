"""The transfer of a schema to another folder: a table is there when it is whole, and a killed transfer goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock

from kaspr_delta.errors import SetupError, StoreError
from kaspr_delta.storage.copying.contents import CommitFile, Contents, table_of
from kaspr_delta.storage.folders import Folder

# Files that are copied at once.
_AT_ONCE = 8


@dataclass
class Transfer:
    """A transfer of the files of a schema, as they were listed.

    ``goes_on`` is asked before each file, and raises an error if not. ``report`` is called with the bytes of each file
    that is there.
    """

    source: Folder
    target: Folder
    contents: Contents
    goes_on: Callable[[], None]
    report: Callable[[int], None]
    _there: set[str] = field(default_factory=set, init=False)
    _telling: Lock = field(default_factory=Lock, init=False)

    def run(self) -> None:
        """Transfer all files that are missing, and remove those that are no longer in the source.

        Data and checkpoints come first. So each commit, written after all earlier ones of its table, makes a version
        whole. Raises SetupError if a file is gone, and OSError.
        """
        self._there = self._kept()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            self._copy_all(pool, self.contents.data)
            self._copy_all(pool, self.contents.checkpoints)
            for some in _in_groups(self.contents.commits):
                self._copy_all(pool, some)
            self._copy_all(pool, self.contents.rest)

    def _kept(self) -> set[str]:
        """The files of tables that are there already. All others in the target are removed.

        A name of a data file is used once, and a commit of a table is never written again. But another table may have
        taken the place of one: then a commit that is there differs.
        """
        found, here = self.target.files(), self.contents.files
        same = {name for name, file in found.items() if name in here and here[name].size == file.size}
        commits = {commit.name: commit.table for commit in self.contents.commits}
        replaced = {
            commits[name] for name in commits.keys() & found.keys() if not (name in same and self._is_same(name))
        }
        for table in replaced:
            (self.target / table).remove_all()
        for name in found.keys() - here.keys():
            if table_of(name) not in replaced:
                self.target.remove(name)
        of_tables = {*self.contents.data, *self.contents.checkpoints, *commits}
        return {name for name in same & of_tables if table_of(name) not in replaced}

    def _is_same(self, name: str) -> bool:
        return self.source.read(name) == self.target.read(name)

    def _copy_all(self, pool: ThreadPoolExecutor, names: Iterable[str]) -> None:
        for done in [pool.submit(self._copy, name) for name in names]:
            done.result()

    def _copy(self, name: str) -> None:
        self.goes_on()
        file = self.contents.files[name]
        if name not in self._there:
            self.target.write_parts(name, self._counted(name, file.size), file.at)
        with self._telling:
            self.report(file.size)

    def _counted(self, name: str, size: int) -> Iterator[bytes]:
        """The parts of a file, which has as many bytes as were listed."""
        read = 0
        try:
            for part in self.source.parts(name):
                read += len(part)
                yield part
        except FileNotFoundError:
            raise changed(table_of(name)) from None
        if read != size:
            raise StoreError(f"{self.source}/{name} has {read} bytes instead of {size}: run the command again")


def _in_groups(commits: Iterable[CommitFile]) -> Iterator[list[str]]:
    """The names of commits in their order, in groups: in a group no two are of one table."""
    group: list[str] = []
    tables: set[str] = set()
    for commit in commits:
        if commit.table in tables or len(group) == _AT_ONCE:
            yield group
            group, tables = [], set()
        group.append(commit.name)
        tables.add(commit.table)
    if group:
        yield group


def changed(name: str) -> SetupError:
    """The error of a file of a table, or of something else, that changed during the copy."""
    return SetupError(f"'{name}' changed while it was copied: stop what writes it, and run the command again")
