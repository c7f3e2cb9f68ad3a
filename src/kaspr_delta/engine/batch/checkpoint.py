"""The checkpoint of a resource: its name, the batches that are counted under it, and what it begins with. No Spark."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from kaspr_delta.storage.transaction import Transaction

# The batch with which a checkpoint begins.
FIRST = -1
# What the state of a resource looks like. A change of its tables or of their meaning takes the next number.
STATE_FORMAT = 2
# In this one base64 text had line breaks, where Spark wrote it (see ``base64_state``).
BROKEN_BASE64 = 1
_NUMBERED = re.compile(r"c(\d{8})-")


@dataclass(frozen=True, slots=True, order=True)
class BatchId:
    """A batch of a log: what was committed under a checkpoint, counted in the order of the commits.

    Batch 7 of a new checkpoint is not the batch 7 of an old one. Names of checkpoints sort by age (``new_checkpoint``).
    """

    checkpoint: str
    number: int = FIRST

    @property
    def name(self) -> str:
        """A name for what begins with this batch."""
        return self.checkpoint if self.number == FIRST else f"{self.checkpoint}-{self.number}"

    @property
    def next(self) -> BatchId:
        """The batch that follows this one."""
        return BatchId(self.checkpoint, self.number + 1)

    @property
    def before(self) -> BatchId:
        """The batch that this one follows."""
        return BatchId(self.checkpoint, self.number - 1)

    def transaction(self, purpose: str) -> Transaction:
        """The transaction of what is appended for this batch to one place."""
        return Transaction(f"{self.checkpoint}:{purpose}", self.number - FIRST)


def new_checkpoint(newest: str) -> str:
    """A name for the checkpoint that follows the newest one (``""``: there is none). No name is used twice.

    Checkpoints are numbered, so that their names sort by age whatever a machine's clock says. Earlier versions began
    the name with the time: such names begin with a digit, and sort before all that have a number.

    >>> new_checkpoint("c00000007-5f0c2a91")[:10], new_checkpoint("20261124T230148.000000000-5f0c2a91")[:10]
    ('c00000008-', 'c00000001-')
    """
    numbered = _NUMBERED.match(newest)
    number = 1 if numbered is None else int(numbered.group(1)) + 1
    return f"c{number:08d}-{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True, slots=True)
class Start:
    """Where a stream begins: the definition that the state is made by, and by source the position it goes on from.

    ``tables`` are the ids of the sources' Delta tables, where Spark's own checkpoint does not tell them.
    """

    definition: Mapping[str, str]
    positions: Mapping[str, int]
    format: int = STATE_FORMAT
    tables: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """As it stands in the log."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Start:
        """What the log tells; of a format to come only what this version knows of."""
        fields = json.loads(text)
        known = (fields.get("definition", {}), fields.get("positions", {}), fields.get("format", 0))
        return cls(*known, fields.get("tables", {}))
