"""The resources that read the result of a join, and those that read its channel."""

from tests.manifests import plan_of

MANIFESTS = """
KasprTable/orders: {}
KasprTable/products: {}
KasprJoin/priced: {leftTable: orders, rightTable: products, column: product, outputChannel: prices}
KasprJoin/again: {leftTable: priced, rightTable: products, column: left.product}
KasprTable/per-product: {from: {join: priced}, groupBy: {python: "def of(row): return row['left']"}, count: {}}
KasprTable/prices-by-key: {from: {channel: prices}, count: {}}
KasprAgent/over-channel:
  input: {channel: {name: prices}}
  processors: {pipeline: [take], operations: [{name: take, map: {python: "def take(value): return value"}}]}
KasprAgent/by-key:
  input: {channel: {name: prices}}
  processors:
    pipeline: [take]
    operations:
      - name: take
        tables: [{name: priced, paramName: priced}]
        map: {python: "def take(value, priced): return priced['O1']"}
"""


def test_readers_of_a_result_are_joins_tables_and_functions_that_read_it_as_a_table() -> None:
    plan = plan_of("shop", MANIFESTS)
    assert sorted(map(str, plan.readers_of_result("priced"))) == ["agent/by-key", "join/again", "table/per-product"]
    assert [*plan.readers_of_result("again")] == []
