"""Tables like those of TPC-H, changes of them in steps, and their joins in SQL: all in DuckDB.

The values of a row are hashes of its key and the step that wrote it, so the same seed makes the same data.
"""

# ruff: noqa: S608  the SQL is made of what stands in this file

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

KEYS: Mapping[str, tuple[str, ...]] = {
    "part": ("p_partkey",),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
# Of scale factor 1.
_PARTS, _ORDERS = 200_000, 1_500_000

# A number below a limit, for a key, a step and a purpose (the salt). The hash is hashed again: DuckDB combines hashes
# of several values so simply that two draws with different salts would depend on each other.
_DRAW = "CREATE MACRO draw(key, step, salt, below) AS (hash(hash(key, step, salt)) % below)::BIGINT"
# Columns of the rows that a step writes, for keys `k` (and lines `n`). Some lines have an unknown part, or none.
_ROWS = {
    "part": """
        k AS p_partkey,
        'part ' || draw(k, {step}, 'name', 1000) AS p_name,
        (draw(k, {step}, 'price', 1000000) / 100)::DECIMAL(15, 2) AS p_retailprice,
        draw(k, {step}, 'size', 50)::INTEGER AS p_size
    """,
    "orders": """
        k AS o_orderkey,
        draw(k, {step}, 'customer', 1000) AS o_custkey,
        DATE '1992-01-01' + draw(k, {step}, 'date', 2400)::INTEGER AS o_orderdate,
        CASE draw(k, {step}, 'priority', 4) WHEN 0 THEN NULL WHEN 1 THEN '1-URGENT' ELSE '3-MEDIUM' END
            AS o_orderpriority
    """,
    "lineitem": """
        k AS l_orderkey,
        n::INTEGER AS l_linenumber,
        nullif(draw(8 * k + n, {step}, 'part', {parts}), 0)::INTEGER AS l_partkey,
        draw(8 * k + n, {step}, 'quantity', 50)::DECIMAL(15, 2) AS l_quantity,
        DATE '1992-01-01' + draw(8 * k + n, {step}, 'ship', 2500)::INTEGER AS l_shipdate
    """,
}
# The keys of the rows that a step writes, or deletes if `gone`.
_CHANGED = {
    "part": "SELECT k, draw(k, {step}, 'part gone', 4) = 0 AS gone FROM range({parts}) r(k)"
    " WHERE draw(k, {step}, 'part touched', 100) < 5",
    "orders": """
        SELECT o_orderkey AS k, draw(o_orderkey, {step}, 'touched', 100) = 0 AS gone FROM orders
        WHERE draw(o_orderkey, {step}, 'touched', 100) < 3
        UNION ALL
        SELECT k, false FROM range({first}, {first} + {more}) r(k)
    """,
    # The lines of a deleted order are mostly deleted too.
    "lineitem": """
        SELECT k, n, bool_or(gone) AS gone FROM (
            SELECT l_orderkey AS k, l_linenumber AS n, draw(8 * k + n, {step}, 'line', 100) = 0 AS gone FROM lineitem
            WHERE draw(8 * k + n, {step}, 'line', 100) < 3
            UNION ALL
            SELECT l_orderkey, l_linenumber, true FROM lineitem JOIN change_orders ON l_orderkey = o_orderkey AND gone
            WHERE draw(l_orderkey, {step}, 'orphans', 4) > 0
            UNION ALL
            SELECT k, n, false FROM range({first}, {first} + {more}) r(k), range(1, 8) l(n)
            WHERE n <= 1 + draw(k, 0, 'lines', 7)
        ) GROUP BY k, n
    """,
}
JOINS = {
    "priced": "SELECT * FROM lineitem LEFT JOIN part ON l_partkey = p_partkey",
    "sold": """
        SELECT l_orderkey, l_linenumber, l_quantity, l_shipdate, p_name, p_retailprice, o_orderdate, o_orderpriority
        FROM lineitem LEFT JOIN part ON l_partkey = p_partkey JOIN orders ON l_orderkey = o_orderkey
    """,
}


@dataclass
class Tpch:
    """The current tables. ``scale`` is TPC-H's scale factor."""

    scale: float
    seed: int
    # Steps so far; the first writes the tables.
    steps: int = 0
    _orders: int = 0
    _sql: duckdb.DuckDBPyConnection = field(default_factory=duckdb.connect, init=False)

    def __post_init__(self) -> None:
        self._sql.execute(_DRAW)
        for table, columns in _ROWS.items():
            keys = "(SELECT 0::BIGINT AS k, 0::BIGINT AS n)"
            self._sql.execute(f"CREATE TABLE {table} AS SELECT {columns.format(step=0, parts=1)} FROM {keys} LIMIT 0")

    def next(self) -> None:
        """Make a step: change all tables. ``export`` writes the changes."""
        first = self.steps == 0
        self.steps += 1
        orders = round(_ORDERS * self.scale)
        parameters: dict[str, Any] = {
            "step": self.seed * 1_000 + self.steps,
            "parts": round(_PARTS * self.scale * 1.05),
            "first": self._orders,
            "more": orders if first else max(3, orders // 200),
        }
        self._orders += parameters["more"]
        for table in KEYS:
            changed = _CHANGED[table]
            if first and table == "part":
                changed = "SELECT k, false AS gone FROM range({parts} * 20 // 21) r(k)"
            self._sql.execute(
                f"CREATE OR REPLACE TABLE change_{table} AS"
                f" SELECT {_ROWS[table].format(**parameters)}, gone FROM ({changed.format(**parameters)})"
            )
        for table, keys in KEYS.items():  # applied after all changes are drawn, which depend on the old rows
            same = " AND ".join(f"{table}.{key} = c.{key}" for key in keys)
            self._sql.execute(f"DELETE FROM {table} USING change_{table} c WHERE {same}")
            self._sql.execute(f"INSERT INTO {table} SELECT * EXCLUDE (gone) FROM change_{table} WHERE NOT gone")

    def export(self, table: str, file: Path) -> Path:
        """Export the rows that the last step wrote, or deleted (column ``gone``), as Parquet."""
        self._sql.execute(f"COPY change_{table} TO '{file}' (FORMAT parquet)")
        return file

    def expected(self, join: str) -> pa.Table:
        """The expected rows of a join."""
        return self._sql.sql(JOINS[join]).to_arrow_table()

    def differences(self, join: str, found: pa.Table) -> list[Any]:
        """Rows that are missing in a join's result (an Arrow table), or additional: the first five."""
        self._sql.register("found", found)
        missing = f"SELECT 'missing', * FROM ({JOINS[join]} EXCEPT ALL SELECT * FROM found)"
        additional = f"SELECT 'additional', * FROM (SELECT * FROM found EXCEPT ALL {JOINS[join]})"
        rows: list[Any] = self._sql.execute(f"{missing} UNION ALL {additional} LIMIT 5").fetchall()
        return rows

    def counts(self) -> dict[str, int]:
        """The number of lines of each kind, and of rows that the last step deleted and wrote."""
        clauses = {
            "with a part": "FROM lineitem JOIN part ON l_partkey = p_partkey",
            "without a part": "FROM lineitem WHERE l_partkey IS NULL",
            "of an unknown part": "FROM lineitem ANTI JOIN part ON l_partkey = p_partkey WHERE l_partkey IS NOT NULL",
            "without an order": "FROM lineitem ANTI JOIN orders ON l_orderkey = o_orderkey",
            **{f"{table} gone": f"FROM change_{table} WHERE gone" for table in KEYS},
            **{f"{table} written": f"FROM change_{table} WHERE NOT gone" for table in KEYS},
        }
        return {what: self._sql.execute(f"SELECT count(*) {rest}").fetchall()[0][0] for what, rest in clauses.items()}
