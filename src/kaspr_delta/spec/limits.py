"""Limits of what is read from manifests: no file keeps a command busy for more than about a second, or fills memory.

Real manifests stay far below them: the largest of Kaspr's own examples has 5,000 characters and 200 values.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_FILES = 1_000
"""Files in a folder. More is most likely the wrong folder, for example one with data."""

LONGEST_FILE = 1_000_000
"""Bytes of a file. Kubernetes stores no object of more than 1.5 MB."""

LONGEST_TEXT = 50_000
"""Characters of one value: 1,250 lines of Python. More Python than that belongs into a package."""

LONGEST_VALUE = 1_000
"""Characters that stand for a ``${NAME}``: a value is a path, an address or a number."""

DEEPEST_VALUE = 100
"""Levels of mappings and lists. Reading calls itself for each level, and Python allows about 1,000 calls in all."""

MOST_TABLES_IN_A_RESULT = 100
"""Tables of which the result of a join has rows, if it joins results. Each has columns of its own in these rows."""

COST_OF_A_VALUE = 50
"""Characters that take as long to read as a value does, however short it is."""

COST_OF_A_DOCUMENT = 500
"""The same for a document."""

MOST_TO_READ = 1_500_000
"""Characters of all documents, with the values of aliases written out and the costs added: about one second."""

LARGEST_NUMBER = 2**63 - 1
"""The largest number of Delta and JSON readers, in either direction."""


@dataclass(slots=True)
class Allowance:
    """The characters that may still be read."""

    left: int = field(default=MOST_TO_READ)
