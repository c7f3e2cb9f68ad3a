"""The rows of a folder of Parquet files: each file has columns and types of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from kaspr_delta.errors import UsageError
from kaspr_delta.serde.files.arrow_rows import arrow_rows, names_in, parquet_table
from kaspr_delta.serde.files.rows import ColumnsCheck, FileRow, PartitionText, any_columns

_HIDDEN = ("_", ".")
# Hive's name for a partition without a value.
_NOTHING = "__HIVE_DEFAULT_PARTITION__"


def parquet_folder(folder: Path, check: ColumnsCheck = any_columns) -> Iterator[FileRow]:
    """The rows of all files below a folder, in the order of their names.

    A column that a file does not have is null in its rows. Folders named ``COLUMN=VALUE``, as of partitioned tables,
    are columns of texts; a typed table reads these as fields of CSV. Raises UsageError.
    """
    files = sorted(file for file in folder.rglob("*") if file.is_file() and not _is_hidden(file.relative_to(folder)))
    if not files:
        raise UsageError(f"{folder} holds no Parquet files")
    columns = dict.fromkeys(name for file in files for name in (*names_in(str(file)), *_partitions(file, folder)))
    check(list(columns))
    for file in files:
        further = {**dict.fromkeys(columns), **_partitions(file, folder)}
        for row in arrow_rows(parquet_table(str(file), str(file)), str(file)):
            yield row if row.cells is None else row._replace(cells={**further, **row.cells})


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(_HIDDEN) for part in path.parts)


def _partitions(file: Path, folder: Path) -> dict[str, PartitionText | None]:
    named = (part.partition("=") for part in file.relative_to(folder).parts[:-1] if "=" in part)
    return {unquote(name): None if value == _NOTHING else PartitionText(unquote(value)) for name, _, value in named}
