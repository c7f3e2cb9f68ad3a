"""What is made of tables and streams: each shape writes its manifest, and says what must come out."""

from tests.chaos.shapes import agents, aggregates, stream_tables, streams, table_joins, views
from tests.chaos.shapes.shape import SHAPES, Shape

__all__ = ["SHAPES", "Shape", "agents", "aggregates", "stream_tables", "streams", "table_joins", "views"]
