"""Kinds by the names people type."""

from __future__ import annotations

import pytest

from kaspr_delta.errors import NotFoundError
from kaspr_delta.spec.kinds import kind_called, short_kind
from kaspr_delta.spec.manifest import KINDS


@pytest.mark.parametrize("name", ["join", "joins", "kj", "kjoin", "KasprJoin", "kasprjoins"])
def test_kinds_are_called_as_with_kubectl(name: str) -> None:
    assert kind_called(name) == "KasprJoin"


def test_every_kind_has_its_names() -> None:
    for kind in KINDS:
        assert kind_called(kind) == kind
        assert kind_called(short_kind(kind)) == kind


def test_an_unknown_kind_is_an_error_with_a_similar_name() -> None:
    with pytest.raises(NotFoundError, match="join"):
        kind_called("jion")
