"""The fingerprints and imports of snippets."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator

import pytest

from kaspr_delta.functions.snippet import Snippet

SOURCE = "def key(order):\n    return order['product_id']\n"


@pytest.mark.parametrize(
    "same",
    [
        "# which product\ndef key(order):\n\n    return order['product_id']  # its number\n",
        'def key( order ):\n  return order["product_id"]',
    ],
)
def test_comments_blanks_and_quotes_do_not_change_a_fingerprint(same: str) -> None:
    assert Snippet(same, "key", "elsewhere.yaml", 7).fingerprint == Snippet(SOURCE, "key").fingerprint


@pytest.mark.parametrize("other", [SOURCE.replace("product_id", "product"), SOURCE.replace("return", "return 1 and")])
def test_other_code_changes_the_fingerprint(other: str) -> None:
    assert Snippet(other, "key").fingerprint != Snippet(SOURCE, "key").fingerprint


def test_another_entry_point_changes_the_fingerprint() -> None:
    two = f"{SOURCE}\ndef other(order):\n    return None\n"
    assert Snippet(two, "key").fingerprint != Snippet(two, "other").fingerprint


class Garbage:
    """An object whose collection lets other threads run, like that of pyspark's references to the JVM."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        time.sleep(0.001)


@pytest.fixture
def collected_often() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(50, 1, 1)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("collected_often")
def test_threads_read_snippets_while_garbage_is_collected() -> None:
    source = "".join(f"def f{n}(a):\n    return [a + {n} * (a - 1), a['x']]\n" for n in range(30))
    failures: list[SystemError] = []

    def look() -> None:
        for _ in range(20):
            Garbage()
            try:
                assert Snippet(source, "f0").fingerprint
            except SystemError as error:
                failures.append(error)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_imports_include_modules_and_their_packages_at_any_place() -> None:
    source = """
import os.path as path
from urllib import request
from . import beside

def f(value):
    from http.client import HTTPSConnection
    return value
"""
    assert Snippet(source, "f").imports >= {"os", "os.path", "urllib", "urllib.request", "http", "http.client"}
    assert "requests" not in Snippet("def f(value): return 'import requests'", "f").imports
