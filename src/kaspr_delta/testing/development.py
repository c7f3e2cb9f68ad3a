"""Run an application again after each change of its manifests, and compare what came out with the run before."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kaspr_delta.application import Application, Starting
from kaspr_delta.plan.definition.waiting import in_words
from kaspr_delta.spec.fixture_files import LoadedFixture
from kaspr_delta.spec.values import Value
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.testing.changed_rows import ChangedRow, changed_rows
from kaspr_delta.testing.found import Fields, everything_in
from kaspr_delta.testing.put import put
from kaspr_delta.testing.run import on_shared

_PREFIX = "kaspr-delta-dev-"


@dataclass(frozen=True, slots=True)
class Turn:
    """One run: the warehouse that holds its rows, their number by resource, and how they differ from the run before.

    ``differences`` has the resources with rows that differ; None for the first run. ``rebuilt`` has those whose state
    was made anew, and ``waiting`` those that do not run, with the reasons.
    """

    warehouse: str
    rows: Mapping[str, int]
    differences: Mapping[str, Sequence[ChangedRow]] | None
    rebuilt: Mapping[str, str]
    waiting: Mapping[str, str]
    seconds: float


@dataclass
class Development:
    """The turns of an application, in its ``warehouse``. Those that need Spark share one session.

    Without one each turn has a temporary folder, into which the rows that fixtures give are put, so that changed
    functions see all of them. That of the last turn stays until the next one, or until ``close``.

    A warehouse keeps its rows: functions of agents see new records only, and definitions that changed make their state
    anew. Fixtures give it rows if the application was never applied there. Topics are not bound.
    """

    path: Path
    warehouse: Path | None = None
    app: str | None = None
    values: Mapping[str, Value] = field(default_factory=dict)
    # As in ``Application.open``.
    starting: Starting | None = None
    _before: Mapping[str, Sequence[Fields]] | None = None
    _last: ExitStack = field(default_factory=ExitStack)

    def turn(self, fixtures: Sequence[LoadedFixture], stop: threading.Event | None = None) -> Turn | None:
        """Apply the manifests, run until quiet, and compare. None if ``stop`` was set meanwhile.

        Raises KasprError: then the next turn compares with the last one that came to its end.
        """
        started = time.monotonic()
        with ExitStack() as held:
            folder = held.enter_context(_folder(self.warehouse))
            known = Warehouse(folder).schemas()
            opened = self._open(folder)
            rebuilt = dict(_rebuild(opened))
            if opened.plan.schema not in known:
                for fixture in fixtures:
                    put(opened, fixture.spec.given, fixture.folder)
            _run(opened, [task for fixture in fixtures for task in fixture.spec.given.tasks], stop)
            if stop is not None and stop.is_set():
                return None
            now, before = everything_in(opened), self._before
            self._last.close()
            self._before, self._last = now, held.pop_all()
        names = {} if before is None else {**before, **now}
        differ = {name: changed_rows((before or {}).get(name, ()), now.get(name, ())) for name in names}
        return Turn(
            folder,
            {name: len(rows) for name, rows in now.items()},
            None if before is None else {name: rows for name, rows in differ.items() if rows},
            rebuilt,
            {str(ref): in_words(reason) for ref, reason in opened.plan.waiting},
            time.monotonic() - started,
        )

    def close(self) -> None:
        """Remove the temporary folder of the last turn."""
        self._last.close()

    def _open(self, warehouse: str) -> Application:
        return Application.open(
            self.path,
            warehouse=warehouse,
            app=self.app,
            values=self.values,
            bound=False,
            starting=on_shared(self.starting),
        )


@contextmanager
def _folder(warehouse: Path | None) -> Iterator[str]:
    if warehouse is not None:
        yield str(warehouse)
        return
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as folder:
        yield folder


def _rebuild(application: Application) -> Iterator[tuple[str, str]]:
    """Rebuild what cannot go on from its state, in the order of the plan; each with the reason."""
    needed = application.rebuilds()
    for ref in application.plan.runs:
        if ref in needed:
            application.rebuild(str(ref))
            yield str(ref), needed[ref]


def _run(application: Application, tasks: Sequence[str], stop: threading.Event | None) -> None:
    application.run(stop=stop)
    if tasks and not (stop is not None and stop.is_set()):
        application.run(only=[f"task/{name}" for name in dict.fromkeys(tasks)], stop=stop)
        application.run(stop=stop)
