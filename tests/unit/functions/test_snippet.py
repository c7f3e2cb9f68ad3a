"""When two snippets do the same."""

from __future__ import annotations

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
def test_what_a_snippet_does_changes_it(other: str) -> None:
    assert Snippet(other, "key").fingerprint != Snippet(SOURCE, "key").fingerprint


def test_which_function_is_called_changes_it() -> None:
    two = f"{SOURCE}\ndef other(order):\n    return None\n"
    assert Snippet(two, "key").fingerprint != Snippet(two, "other").fingerprint
