"""What is made of tables and streams: each shape writes its manifest, and says what must come out."""

from tests.chaos.shapes import aggregates, table_joins
from tests.chaos.shapes.shape import SHAPES, Shape

__all__ = ["SHAPES", "Shape", "aggregates", "table_joins"]
