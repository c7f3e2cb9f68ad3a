"""The checkpoint of a resource: its name, the numbers of its batches, and its start. No Spark."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.folders import Folder
from kaspr_delta.storage.namespace import Namespace
from kaspr_delta.storage.tables import Transaction

# The number of the batch that makes a state. A checkpoint that goes on with the state of another one has none.
FIRST = -1
# The format of a resource's state. A change of the state's tables or of their meaning takes the next number.
STATE_FORMAT = 2
NEWEST_START = "start IS NOT NULL ORDER BY checkpoint DESC, batch DESC LIMIT 1"
"""The condition by which a SELECT finds the newest start in a log, and the clauses that follow it."""
_NUMBERED = re.compile(r"c(\d{8})-")


@dataclass(frozen=True, slots=True, order=True)
class BatchId:
    """A batch of a log: its checkpoint, and its number in the order of the checkpoint's commits.

    Batch 7 of a new checkpoint is not the batch 7 of an old one. Names of checkpoints sort by age (``new_checkpoint``).
    """

    checkpoint: str
    number: int = FIRST

    @property
    def name(self) -> str:
        """The name of the stream that begins with this batch."""
        return self.checkpoint if self.number == FIRST else f"{self.checkpoint}-{self.number}"

    @property
    def next(self) -> BatchId:
        return BatchId(self.checkpoint, self.number + 1)

    @property
    def before(self) -> BatchId:
        return BatchId(self.checkpoint, self.number - 1)

    def transaction(self, purpose: str) -> Transaction:
        """The transaction of this batch's append to one table, which ``purpose`` names."""
        return Transaction(f"{self.checkpoint}:{purpose}", self.number - FIRST)


def new_checkpoint(newest: str) -> str:
    """A name for the checkpoint that follows the newest one (``""``: there is none). No name is used twice.

    Checkpoints are numbered, so that their names sort by age whatever a machine's clock says. In earlier versions names
    began with the time, so with a digit: they sort before all numbered ones.

    >>> new_checkpoint("c00000007-5f0c2a91")[:10], new_checkpoint("20261124T230148.000000000-5f0c2a91")[:10]
    ('c00000008-', 'c00000001-')
    """
    numbered = _NUMBERED.match(newest)
    number = 1 if numbered is None else int(numbered.group(1)) + 1
    return f"c{number:08d}-{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a stream: the definition of the state, and by source the position from which the stream reads.

    ``tables`` has the ids of the sources' Delta tables if each stream has a Spark checkpoint of its own, else nothing.
    ``times`` has the times of the commits at these positions, as far as they are known: a table whose newest commit has
    the same version and the same time is the same table, and has nothing new. ``ids`` has the ids where streams are
    continued: a batch without a stream looks for a table that was replaced. ``stream`` names Spark's checkpoint of a
    stream that begins after such a batch; before the first one it has the name of the log's checkpoint.
    """

    definition: Mapping[str, str]
    positions: Mapping[str, int]
    format: int = STATE_FORMAT
    tables: Mapping[str, str] = field(default_factory=dict)
    times: Mapping[str, str] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    stream: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Start:
        """Read the JSON text of the log. Fields of later formats are ignored."""
        fields = json.loads(text)
        known = (fields.get("definition", {}), fields.get("positions", {}), fields.get("format", 0))
        tables, times, ids = (fields.get(name, {}) for name in ("tables", "times", "ids"))
        return cls(*known, tables, times, ids, fields.get("stream", ""))

    def at(self, positions: Mapping[str, int]) -> Start:
        """The same start at other positions: the times of commits hold for the positions that stay."""
        times = {name: time for name, time in self.times.items() if positions[name] == self.positions[name]}
        return replace(self, positions=positions, times=times)


def checkpoints_of(namespace: Namespace, ref: ResourceRef) -> Folder:
    """The folder of a resource's checkpoints, including those that a rebuild replaced."""
    return namespace.checkpoints / f"{ref.kind}-{ref.name}"
