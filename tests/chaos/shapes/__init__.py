"""Resources over tables and streams: each shape writes its manifest and computes its expected results."""

from tests.chaos.shapes import agents, aggregates, stream_tables, streams, table_joins, views
from tests.chaos.shapes.shape import SHAPES, Shape

__all__ = ["SHAPES", "Shape", "agents", "aggregates", "stream_tables", "streams", "table_joins", "views"]
