"""The snippet of docs/reading-results.md for Spark prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.documented import Block
from tests.reading_results import printed, snippets, write_results

pytestmark = pytest.mark.further


def test_the_snippet_for_spark_prints_what_the_page_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((block, documented),) = (pair for pair in snippets() if "spark." in pair[0].text)
    write_results(tmp_path)
    monkeypatch.chdir(tmp_path)
    of_this_folder = block.text.replace('load("wh/', f'load("{tmp_path}/wh/')  # a server has a folder of its own
    assert of_this_folder != block.text
    assert printed(Block(block.file, block.line, block.language, None, of_this_folder), spark=spark) == documented
