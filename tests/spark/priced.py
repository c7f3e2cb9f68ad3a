"""Orders joined with the products that they name."""

from __future__ import annotations

from kaspr_delta import Application

PRICED = """
KasprTable/orders: {}
KasprTable/products: {}
KasprJoin/priced:
  leftTable: orders
  rightTable: products
  extractor: {python: "def product(order): return order['product']"}
"""
"""The manifests. Fields of the join may follow."""


def prices(app: Application) -> dict[str, int]:
    """The price in the result for each order."""
    return {key: pair["right"]["price"] for key, pair in app.join("priced").to_dict().items()}
