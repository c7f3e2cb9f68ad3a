"""The minor version of Spark that tests run on. docs/databricks.md lists the differences."""

from __future__ import annotations

import pyspark

IS_SPARK_4_0 = pyspark.__version__.startswith("4.0.")
