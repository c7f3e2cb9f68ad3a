"""The line of Spark that tests run on, where lines differ. docs/databricks.md says how."""

from __future__ import annotations

import pyspark

IS_SPARK_4_0 = pyspark.__version__.startswith("4.0.")
