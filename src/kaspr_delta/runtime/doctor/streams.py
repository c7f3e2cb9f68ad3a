"""Probes of streams: one that ends, the place where its batches run, and one that does not end."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from kaspr_delta.errors import SetupError
from kaspr_delta.runtime.doctor.bench import LOG, ROWS, Bench, Facts, frame_rows, in_words, rows_of, timed
from kaspr_delta.runtime.doctor.probe import Probe
from kaspr_delta.runtime.failures import short_text
from kaspr_delta.storage.folders import LocalFolder
from kaspr_delta.storage.heartbeat import Lease, Record
from kaspr_delta.storage.tables import Tables, Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_POLL = 0.1
# The renewals of a lease that a batch waits for.
_RENEWALS = 3


@dataclass(frozen=True, slots=True)
class Look:
    """The places at which a batch looks: a file in the temporary folder of the run, a lease, a folder beside it."""

    run: str
    temporary: Path
    lease: Path
    folder: Path
    patience: float
    every: float


def stream(bench: Bench) -> str:
    """Run a stream over a change feed until it ends. Its batch looks around."""
    bench.folder.mkdir(parents=True, exist_ok=True)
    bench.append(ROWS, streamed="1")
    folder, name = LocalFolder(bench.folder), bench.delta.namespace.name
    lease = Lease(folder, "lease.json", "doctor", name, every=bench.every, settle=bench.every)
    with tempfile.NamedTemporaryFile(prefix="kaspr-delta-doctor-") as temporary, lease.held():
        look = Look(bench.run, Path(temporary.name), Path(lease.path), bench.folder, bench.patience, bench.every)
        _, seconds = timed(lambda: _until_it_ends(bench, look))
    found = [row["value"] for row in frame_rows(bench.delta.read(bench.spark, LOG)) if row["key"] == _key(bench.run)]
    bench.facts = Facts(**json.loads(found[0])) if found else None
    if bench.seen_in_batch.rows != 1:
        raise SetupError(f"a stream over one new row read {bench.seen_in_batch.rows} rows")
    return in_words(seconds)


def _until_it_ends(bench: Bench, look: Look) -> None:
    rows = bench.delta.stream(bench.spark, ROWS, bench.newest(ROWS))
    writer = rows.writeStream.foreachBatch(partial(look_around, bench.delta, look)).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(bench.folder / "ends")).start()
    if not query.awaitTermination(int(2 * bench.patience)):
        query.stop()
        raise SetupError(f"a stream over one row did not end in {in_words(2 * bench.patience)}")


def look_around(delta: Tables, look: Look, batch: DataFrame, number: int) -> None:
    """A batch that appends its facts to the log of the bench."""
    facts = Facts(
        rows=batch.count(),
        host=socket.gethostname(),
        pid=os.getpid(),
        temporary=look.temporary.exists(),
        spilled=_spilling_error(batch.sparkSession, look),
        lease=_longest_wait(look),
    )
    rows = rows_of({_key(look.run): json.dumps(asdict(facts))})
    delta.append(batch.sparkSession, rows, LOG, Transaction(f"batch-{look.run}", number + 1))


def _key(run: str) -> str:
    return f"batch {run}"


def _spilling_error(spark: SparkSession, look: Look) -> str:
    """Write rows to a file, as a batch does whose rows do not fit its memory, and let Spark read it."""
    try:
        folder = look.folder / "spilled"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"key": ["1", "2"]}), folder / "rows.parquet")
        read = spark.read.parquet(str(folder)).count()
    except Exception as error:  # noqa: BLE001  it is a fact
        return short_text(error)
    return "" if read == 2 else f"Spark read {read} of 2 rows"  # noqa: PLR2004


def _longest_wait(look: Look) -> float | None:
    """Watch a lease until some renewals were seen, and return the longest time between two of them."""
    counts, longest = set[int](), 0.0
    started = changed = time.monotonic()
    while len(counts) <= _RENEWALS:
        if time.monotonic() - started > look.patience:
            return None
        with contextlib.suppress(OSError, ValidationError):
            count = Record.model_validate_json(look.lease.read_bytes()).count
            if count not in counts:
                longest = max(longest, time.monotonic() - changed)
                counts.add(count)
                changed = time.monotonic()
        time.sleep(look.every / 5)
    return longest


def _is_this_process(facts: Facts) -> bool:
    return (facts.host, facts.pid) == (socket.gethostname(), os.getpid())


def batch_worker(bench: Bench) -> str:
    """Tell where the batch of the stream ran."""
    facts = bench.seen_in_batch
    if _is_this_process(facts):
        return "in the process of the run"
    return f"in another process, {facts.pid} on host {facts.host}"


def temporary_folder(bench: Bench) -> str:
    """Tell whether run and batch have the same temporary folder."""
    return "shared with the run" if bench.seen_in_batch.temporary else "not that of the run"


def spill(bench: Bench) -> str:
    """Tell whether the batch could write a file beside the checkpoints that Spark reads."""
    if bench.seen_in_batch.spilled:
        raise SetupError(bench.seen_in_batch.spilled)
    return "written by the batch, read by Spark"


def lease(bench: Bench) -> str:
    """Tell how soon the batch saw renewals of a lease."""
    longest, real = bench.seen_in_batch.lease, Lease(LocalFolder(Path()), "", "", "")
    if longest is None:
        raise SetupError(f"a batch did not see the renewals of a lease in {in_words(bench.patience)}")
    if longest > real.seconds - real.every:
        raise SetupError(f"a batch saw a renewal after {in_words(longest)}; a lease lasts {in_words(real.seconds)}")
    seen = f"seen after {in_words(longest)} at most, renewed every {in_words(bench.every)}"
    if _is_this_process(bench.seen_in_batch):
        return f"{seen}; by a batch in the process of the run: two doctors side by side try two machines"
    return seen


def endless_stream(bench: Bench) -> str:
    """Let a stream that does not end read a row, wait until nothing is new, and give it another row."""
    bench.append(ROWS, endless="1")
    with contextlib.closing(Endless(bench, bench.newest(ROWS))) as begun:
        begun.await_rows(1)
        begun.await_idle()
        bench.append(ROWS, endless="2")
        _, seconds = timed(lambda: begun.await_rows(2))
    return f"a new row was read after {in_words(seconds)}"


class Endless:
    """A stream that does not end by itself."""

    def __init__(self, bench: Bench, first: int) -> None:
        rows = bench.delta.stream(bench.spark, ROWS, first)
        writer = rows.writeStream.foreachBatch(count_rows).trigger(processingTime=f"{_POLL} seconds")
        self._query: StreamingQuery = writer.option("checkpointLocation", str(bench.folder / "endless")).start()
        self._patience = bench.patience

    def close(self) -> None:
        """Stop the stream."""
        self._query.stop()

    def await_rows(self, many: int) -> None:
        """Wait until the stream has read so many rows. Raises SetupError if it fails, or does not read them."""
        self._await(lambda query: _rows_read(query) >= many, f"did not read row {many}")

    def await_idle(self) -> None:
        """Wait until the stream waits for news. Raises SetupError if it fails."""
        self._await(lambda query: str(query.status["message"]).startswith("Waiting"), "did not begin")

    def _await(self, is_so: Callable[[StreamingQuery], bool], otherwise: str) -> None:
        end = time.monotonic() + self._patience
        while not is_so(self._query):
            error = self._query.exception()
            if error is not None:
                raise SetupError(short_text(error))
            if time.monotonic() > end:
                raise SetupError(f"a stream {otherwise} in {in_words(self._patience)}")
            time.sleep(_POLL)


def count_rows(batch: DataFrame, _: int) -> None:
    """A batch that reads its rows."""
    batch.count()


def _rows_read(query: StreamingQuery) -> int:
    return sum(int(source["numInputRows"]) for progress in query.recentProgress for source in progress["sources"])


PROBES = (
    Probe(
        "stream",
        "How long does a stream over a change feed take that ends?",
        stream,
        "each resource with news runs one in each round",
        "nothing runs",
    ),
    Probe(
        "batch worker",
        "Where do batches run?",
        batch_worker,
        "in the process of the run, agents that share tables run side by side; in another one, one after another",
        "unknown: no batch ran",
    ),
    Probe(
        "temporary folder",
        "Do batches have the temporary folder of the run?",
        temporary_folder,
        "nothing: the engine keeps nothing there from one batch to the next",
        "unknown: no batch ran",
    ),
    Probe(
        "spill",
        "Can a batch write a file beside the checkpoints that Spark reads?",
        spill,
        "rows that do not fit the memory of a batch are written there",
        "agents and tasks whose functions return more rows than fit their memory fail",
    ),
    Probe(
        "lease",
        "Does a batch see renewals of a lease in time, in another process if it runs there?",
        lease,
        "a resource runs in one process at a time",
        "two runs could take one resource: let only one job run it",
    ),
    Probe(
        "endless stream",
        "Does a stream that does not end read a row that comes when nothing was new?",
        endless_stream,
        "`run --continuous` keeps its streams, unless batches run in another process",
        "where Spark refuses such streams, `run --continuous` runs rounds, --every apart; else use a schedule",
        if_not="note",
    ),
)
