"""Look-ups by texts, without Spark: the rows found, the number of files that may hold them, and the limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import IO, ClassVar

import pyarrow as pa
import pytest

from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.folders import Folder, LocalFolder
from kaspr_delta.storage.layout import SUBSCRIPTIONS
from kaspr_delta.storage.limits import Limits, Size
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.look_up import look_up
from kaspr_delta.storage.tables import Texts

SCHEMA = arrow_schema(SUBSCRIPTIONS.columns)


class Elsewhere(LocalFolder):
    """A folder whose files are read as in a bucket."""

    is_here = False
    opened: ClassVar[list[str]] = []

    def __truediv__(self, name: str) -> Elsewhere:
        return Elsewhere(self.path / name)

    def open(self, name: str) -> IO[bytes]:
        self.opened.append(name)
        return super().open(name)


@pytest.fixture(params=["here", "elsewhere"])
def folder(request: pytest.FixtureRequest, delta: DeltaRs) -> Folder:
    """The folder of the table."""
    here = delta.folder("t")
    assert isinstance(here, LocalFolder)
    Elsewhere.opened.clear()
    return here if request.param == "here" else Elsewhere(here.path)


@dataclass(frozen=True)
class Subject:
    """A table in a folder, with limits."""

    delta: DeltaRs
    folder: Folder
    limits: Limits

    def find(self, texts: Texts, version: int | None = None, limits: Limits | None = None) -> pa.Table | None:
        return look_up(self.folder, self.delta.open("t", version), texts, limits or self.limits)


@pytest.fixture
def subject(delta: DeltaRs, folder: Folder, limits: Limits) -> Subject:
    return Subject(delta, folder, limits)


@pytest.fixture
def delta(delta: DeltaRs) -> DeltaRs:
    """Subscriptions in three files: a to c, m to o, x to z."""
    delta.ensure("t", SUBSCRIPTIONS)
    for keys in ("abc", "mno", "xyz"):
        delta.append("t", pa.Table.from_pylist([{"key": key, "fk": f"P'{key}"} for key in keys], SCHEMA))
    return delta


@pytest.fixture(params=["searched for", "all read"])
def limits(request: pytest.FixtureRequest) -> Limits:
    """Limits with which the texts are searched for by a query, or all rows are read."""
    return Limits(searched_texts=0) if request.param == "all read" else Limits()


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"key": ["b"]}, "b"),
        ({"key": ["b", "n", "gone"]}, "bn"),
        ({"key": ["between"]}, ""),
        ({"key": ["a"], "fk": ["P'z", "P'm"]}, "amz"),
        ({"key": [], "fk": ["P'o"]}, "o"),
        ({"key": ["d"]}, ""),
        ({"key": [], "fk": []}, ""),
    ],
)
def test_a_look_up_finds_the_rows_with_any_of_the_values(
    subject: Subject, values: dict[str, list[str]], found: str
) -> None:
    result = subject.find(values)
    assert result is not None
    assert sorted(result["key"].to_pylist()) == list(found)
    assert result.schema.equals(SCHEMA)


def test_a_look_up_reads_the_given_version(subject: Subject) -> None:
    result = subject.find({"key": ["b", "n"]}, version=1)
    assert result is not None
    assert result["key"].to_pylist() == ["b"]


def test_too_many_rows_or_bytes_are_left_to_spark(subject: Subject) -> None:
    few = replace(subject.limits, looked_up=Size(2, 1 << 20))
    assert subject.find({"key": ["a", "b"]}, limits=few) is not None
    assert subject.find({"key": ["a", "b", "z"]}, limits=few) is None
    more = [{"key": "a"}, {"key": "a"}, {"key": "large", "emitted": "e" * 1_000}]
    subject.delta.append("t", pa.Table.from_pylist(more, SCHEMA))
    assert subject.find({"key": ["a"]}, limits=few) is None
    small = replace(subject.limits, looked_up=Size(10, 1_000))
    assert subject.find({"key": ["a", "z"]}, limits=small) is not None
    assert subject.find({"key": ["a", "large"]}, limits=small) is None


def test_in_a_bucket_few_small_files_are_read_as_a_whole(delta: DeltaRs) -> None:
    here = delta.folder("t")
    assert isinstance(here, LocalFolder)
    Elsewhere.opened.clear()
    assert look_up(Elsewhere(here.path), delta.open("t"), {"key": ["b"]}, Limits()) is not None
    assert len(Elsewhere.opened) == 3
    delta.append("t", pa.Table.from_pylist([{"key": "one more file"}], SCHEMA))
    Elsewhere.opened.clear()
    assert look_up(Elsewhere(here.path), delta.open("t"), {"key": ["b"]}, Limits()) is not None
    assert Elsewhere.opened == []


def test_in_a_bucket_an_empty_table_has_no_rows(delta: DeltaRs) -> None:
    found = look_up(Elsewhere(delta.namespace.root / "none"), delta.open("t", 0), {"key": ["b"]}, Limits())
    assert found is not None
    assert found.num_rows == 0
