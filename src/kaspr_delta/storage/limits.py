"""The sizes at which the engine changes its method. Answers do not depend on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa


class Size(NamedTuple):
    """A number of rows, and their bytes in Arrow."""

    rows: int
    bytes: int

    def fits(self, table: pa.Table) -> bool:
        """Whether a table has neither more rows nor more bytes."""
        return bool(table.num_rows <= self.rows and table.nbytes <= self.bytes)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one application. Bytes are those of Arrow, unless it says otherwise.

    Measured on two cores, with the benchmarks of ``benchmarks/``.
    """

    # -- a batch of a join ---------------------------------------------------------------------------------------------

    changes: Size = Size(200_000, 4 << 20)
    """Changes of a batch that are collected to learn which keys were touched. An update is two rows of a feed. Of a
    first load or a long backlog there are more: Spark groups them."""

    small_batch: Size = Size(20_000, 16 << 20)
    """Touched keys of a batch whose rows stay on the driver, and rows that Spark sends there for it. Up to there
    shuffles, Python workers and reading back take more time than the driver does; with 100,000 rows no longer. Its
    bytes are also those of rows that are put into a file before they go to Spark."""

    logged: Size = Size(200_000, 128 << 20)
    """Rows of a log, which have more columns, that the driver reads back where it merges them without Spark."""

    broadcast_rows: int = 1_000_000
    """Rows of a side of a join that fit the memory of each executor. Then the other side is not shuffled."""

    first_load_broadcast: int = 64 << 20
    """Bytes of the keys and values of a right table that a first load broadcasts: the left rows, which are many, then
    need no shuffle. 64 bytes are added for each row."""

    first_load_compared: int = 1 << 21
    """Keys that a first load compares on the driver without Spark: they take 200 bytes each for a moment."""

    first_load_hashed: int = 1 << 24
    """Hashes of keys that a first load collects to the driver, 8 bytes each: to compare them there needs no shuffle."""

    # -- folds ---------------------------------------------------------------------------------------------------------

    fold_rest: int = 29
    """After a fold of *t* seconds the next one waits for so many times *t*: folds take a thirtieth of the time at most.
    Small tables are up to date at once. In large ones every changed row makes a file be written anew."""

    longest_rest: float = 120.0
    """Seconds that a fold waits at most; folds of very large tables take more than a thirtieth of the time."""

    fold_quiet: int = 3
    """A fold waits no longer if no batch came for so many times the duration of the last fold."""

    least_quiet: float = 1.0
    """Seconds for which no batch must have come for that."""

    pending_bytes: int = 64 << 20
    """Bytes of batches that wait to be folded."""

    deferred_bytes: int = 32 << 20
    """Bytes of state that is not merged: every batch looks for keys in it."""

    pending_state: Size = Size(200_000, 60_000_000)
    """Changed subscriptions of a batch that are kept while it waits. To read back more takes longer than it saves."""

    old_progress: int = 100
    """Rows of the progress table that are older than their retention before they are summed up."""

    log_kept: float = 600.0
    """Seconds for which a table that nobody follows keeps its commits. A plan of Spark may read the log of its tables
    late, of commits that were newest when it was made."""

    followed_commits: int = 1_000
    """Commits of a topic or channel that are kept for a stream that has not read them. One that is further behind
    reads them from elsewhere, in one batch."""

    # -- agents, streams and tables made from something ----------------------------------------------------------------

    few: Size = Size(2_000, 4 << 20)
    """Rows that are collected and computed on the driver: for so few it takes less time than to start workers. Up to
    so many rows statements are planned without adaptive planning, and a first load takes no shortcut."""

    few_events: Size = Size(1_000, 4 << 20)
    """The same for the records of a stateless agent, which runs a function for each."""

    ordered_records: int = 50_000
    """Records that an ordered agent reads at once; a larger batch is measured first."""

    ordered_piece: int = 64 << 20
    """Bytes of keys and values of a piece of a larger batch, unless one offset alone has more: the JVM holds several
    copies of them."""

    ordered_batch: str = "64m"
    """Bytes of files in a batch of an ordered agent or an export, which a kill repeats; one commit may have more."""

    keys_ahead: int = 5_000
    """Events whose likely keys are fetched in one read."""

    feed_batch: str = "1g"
    """Bytes of files in a batch of a table's backlog; a single commit may have more."""

    # -- look-ups ------------------------------------------------------------------------------------------------------

    listed_texts: int = 2_000
    """Texts that stand in a statement of Spark, so that Delta skips files; more are broadcast, and all files read."""

    looked_up: Size = Size(200_000, 64 << 20)
    """Texts and rows of a look-up without Spark; for more of them Spark is quicker."""

    searched_texts: int = 1_000
    """Texts that are searched for by the page indexes of the files. For more a scan of all pages takes less time."""

    rows_per_searched_text: int = 1_000
    """In a large table one text for so many rows is searched for by page indexes."""

    most_searched_texts: int = 20_000
    """Texts that are searched for where only DataFusion can read the rows, and no scan can be made."""
