"""All probes of a warehouse, in their order."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kaspr_delta.errors import AlreadyRunningError, SetupError, UsageError
from kaspr_delta.grant import Grant
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.runtime.doctor import endpoints, files, identities, platform, sources, streams, tables
from kaspr_delta.runtime.doctor.bench import Bench, in_words
from kaspr_delta.runtime.doctor.identities import Identities
from kaspr_delta.runtime.doctor.probe import Answer, Probe, answers

# Seconds that the removal of throw-away tables has in any case.
_CLEANING = 60.0

# The doctor that has the lease names itself in a file; the one that is refused leaves a file with that name.
_HOLDER = "holder"


def _name_holder(bench: Bench) -> None:
    with contextlib.suppress(OSError, SetupError):  # the probe of the volume says it
        bench.marks.mkdir(parents=True, exist_ok=True)
        (bench.marks / _HOLDER).write_text(bench.run)


def _mark_refused(bench: Bench) -> None:
    with contextlib.suppress(OSError, SetupError):  # the holder has ended, or its folder is out of reach
        (bench.marks / (bench.marks / _HOLDER).read_text()).touch()


def _clear_marks(bench: Bench) -> None:
    with contextlib.suppress(OSError, SetupError):
        if (bench.marks / _HOLDER).read_text() == bench.run:  # else another one has the lease now
            shutil.rmtree(bench.marks)


def _refused(bench: Bench) -> str:
    """Wait for the file of a doctor that was refused. Raises SetupError if there is none in time."""
    mark, end = bench.marks / bench.run, time.monotonic() + bench.patience
    while not mark.exists():
        if time.monotonic() >= end:
            raise SetupError(f"no second task was refused in {in_words(bench.patience)} more")
        time.sleep(bench.every)
    return "it was"


ANOTHER = Probe(
    "another doctor",
    "Does a second task see the lease of the first one?",
    lambda _: "",
    "this one probes nothing more: as a second run of a resource, it is refused",
    "both probe the same tables: their answers are worth nothing, but for this",
)
SECOND_TASK = Probe(
    "second task",
    "Was a second task refused while this one had the lease?",
    _refused,
    "of two runs of a resource one is refused, on whatever machine it is",
    "unknown: start the job again, for its two tasks were not at work at one time",
    if_not="note",
)
CLEANED = Probe(
    "clean-up",
    "Are the throw-away tables and files gone?",
    Bench.clear,
    "nothing is left but files of external tables",
    "the next doctor removes them",
    if_not="note",
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """An application whose warehouse is examined: its plan, and the grants that its jobs make on both schemas.

    ``started_job`` is the id of the job that its tasks start, ``sql_warehouse`` that of the one that alerts use.
    ``in_pair``: a second task examines the same warehouse at the same time. ``identities`` are others than its own.
    """

    plan: Plan | None = None
    grants: Sequence[Grant] = ()
    on_internal: Sequence[Grant] = ()
    started_job: str = ""
    sql_warehouse: str = ""
    in_pair: bool = False
    identities: Identities = field(default_factory=Identities)


# Before the lease: it lies in the volume, which is made with the schema.
FIRST = (platform.VERSIONS, tables.SCHEMA)


def probes_of(bench: Bench, wanted: Wanted) -> Iterator[Probe]:
    """The probes after the first ones: of the warehouse, of all that is read and written elsewhere, and of grants."""
    in_catalog = bench.delta.namespace.on_databricks
    yield from tables.PROBES
    yield from tables.IN_CATALOG if in_catalog else ()
    yield from files.PROBES
    yield from streams.PROBES
    if wanted.plan is not None:
        yield from [tables.of_own(wanted.plan), *tables.of_tags(wanted.plan)] if in_catalog else ()
        yield from sources.probes(wanted.plan, in_catalog=in_catalog)
        yield from endpoints.probes(wanted.plan)
    yield from [platform.of_grants(wanted.grants, wanted.on_internal)] if wanted.grants or wanted.on_internal else ()
    yield from platform.of_rights(wanted.started_job, wanted.sql_warehouse)
    yield from identities.probes(wanted.plan, wanted.identities) if in_catalog else ()
    yield from platform.IN_CATALOG if in_catalog else ()


def examine(bench: Bench, wanted: Wanted, seconds: float) -> Iterator[tuple[Probe, Answer]]:
    """Ask all probes, in so many seconds, and remove the throw-away tables and files.

    If another doctor examines the same warehouse, only its lease is probed.
    """
    end = time.monotonic() + seconds
    first = list(answers(FIRST, bench, seconds))
    lock = contextlib.ExitStack()
    try:
        lock.enter_context(bench.delta.namespace.resource_lock("doctor"))
    except AlreadyRunningError as error:
        _mark_refused(bench)
        yield ANOTHER, Answer("ok", str(error), ANOTHER.then)
        return
    except (OSError, UsageError):
        pass  # the probe of the volume says it
    try:
        with lock:
            try:
                _name_holder(bench)
                yield from first
                yield from answers(probes_of(bench, wanted), bench, end - time.monotonic())
                if wanted.in_pair:  # whatever time is left: it waits for no store
                    yield SECOND_TASK, SECOND_TASK.answer(bench, bench.patience + _CLEANING)
            finally:
                cleaned = CLEANED.answer(bench, _CLEANING)
                _clear_marks(bench)
            yield CLEANED, cleaned
    except AlreadyRunningError as error:  # another one took the lease meanwhile
        yield ANOTHER, Answer("problem", str(error), ANOTHER.otherwise)
