"""Two joins of typed tables like TPC-H's, which others write, compared with joins in SQL while rows change."""

from __future__ import annotations

from pathlib import Path
from string import Template

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from tests.properties.tpch import KEYS, Tpch

MANIFESTS = Template(Path(__file__).with_name("tpch.yaml").read_text())
RESULT_QUERIES = {
    "priced": """
        SELECT left.l_orderkey, left.l_linenumber, left.l_partkey, left.l_quantity, left.l_shipdate,
               right.p_partkey, right.p_name, right.p_retailprice, right.p_size
        FROM priced
    """,
    "sold": """
        SELECT l_orderkey, l_linenumber, l_quantity, l_shipdate, p_name, p_retailprice, o_orderdate, o_orderpriority
        FROM sold
    """,
}


def write(spark: SparkSession, tpch: Tpch, folder: Path) -> None:
    """Write the last step of DuckDB's tables to the Delta tables: one commit each."""
    for table, keys in KEYS.items():
        rows = spark.read.parquet(str(tpch.export(table, folder / f"{table}.parquet")))
        if tpch.steps == 1:
            feed = {"delta.enableChangeDataFeed": "true"}
            rows.drop("gone").write.format("delta").options(**feed).save(str(folder / table))
            continue
        same = " AND ".join(f"t.{key} = s.{key}" for key in keys)
        spark.sql(
            f"MERGE INTO delta.`{folder / table}` t USING {{rows}} s ON {same}"
            " WHEN MATCHED AND s.gone THEN DELETE WHEN MATCHED THEN UPDATE SET *"
            " WHEN NOT MATCHED AND NOT s.gone THEN INSERT *",
            rows=rows,
        ).collect()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("scale", "seed", "steps"),
    [
        pytest.param(0.0001, 7, [1], marks=pytest.mark.slow),
        pytest.param(0.002, 1, [2] * 7, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)]),
        pytest.param(0.1, 2, [1, 1], marks=[pytest.mark.slow, pytest.mark.timeout(7_200)]),
    ],
)
def test_joins_of_tables_of_others_equal_joins_in_sql_after_every_run(
    spark: SparkSession, tmp_path: Path, scale: float, seed: int, steps: list[int]
) -> None:
    tpch = Tpch(scale, seed)
    tpch.next()
    write(spark, tpch, tmp_path)
    manifests = tmp_path / "tpch.yaml"
    manifests.write_text(MANIFESTS.substitute(FOLDER=tmp_path))
    app = Application.open(manifests, warehouse=tmp_path / "warehouse", spark=spark)
    for run, steps_before in enumerate([0, *steps]):
        for _ in range(steps_before):
            tpch.next()
            write(spark, tpch, tmp_path)
        app.run()
        for join, select in RESULT_QUERIES.items():
            assert tpch.differences(join, app.sql(select).toArrow()) == [], f"{join} after run {run + 1}"
    assert app.dead_letters() == []


def test_every_kind_of_row_and_change_occurs_and_wrong_results_are_reported() -> None:
    tpch = Tpch(0.002, seed=8)
    tpch.next()
    tpch.next()
    assert min(tpch.counts().values()) >= 1, tpch.counts()
    for join in RESULT_QUERIES:
        right = tpch.expected(join)
        assert tpch.differences(join, right) == []
        assert [found[0] for found in tpch.differences(join, right.slice(1))] == ["missing"]
        twice = pa.concat_tables([right, right.slice(0, 1)])
        assert [found[0] for found in tpch.differences(join, twice)] == ["additional"]
