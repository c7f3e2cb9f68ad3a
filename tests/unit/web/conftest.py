"""Applications served over HTTP, on warehouses that are written without Spark."""

from __future__ import annotations

import contextlib
import json
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import httpx
import pytest

from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.runtime.applying import apply_manifests
from kaspr_delta.serde.json_text import canonical_key
from kaspr_delta.spec.loader import load_text
from kaspr_delta.storage.layout import table_layout
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.web.server import web_application
from tests.folders import append_rows, delta_rs
from tests.serving import served_by_uvicorn

ROOT = Path(__file__).parents[3]


def manifest(kind: str, name: str, spec: str, app: str = "shop") -> str:
    """A manifest with a spec that is written without indentation."""
    head = (
        f"apiVersion: kaspr.io/v1alpha1\nkind: {kind}\nmetadata:\n  name: {name}\n  labels: {{kaspr.io/app: {app}}}\n"
    )
    return f"{head}spec:\n{textwrap.indent(textwrap.dedent(spec).strip(), '  ')}\n"


def view(
    name: str, method: str, path: str, python: str, *, tables: str = "", rest: str = "", response: str = ""
) -> str:
    """A web view with one operation, a map."""
    operation = f"- name: answer\n  map:\n    python: |\n{textwrap.indent(textwrap.dedent(python).strip(), '      ')}\n"
    if tables:
        given = "".join(f"  - {{name: {table}, paramName: {table}}}\n" for table in tables.split())
        operation += f"  tables:\n{given}"
    processors = f"processors:\n  pipeline: [answer]\n  operations:\n{textwrap.indent(operation, '  ')}"
    answer = f"response:\n{textwrap.indent(textwrap.dedent(response).strip(), '  ')}\n" if response else ""
    spec = f"name: {name}\nrequest: {{method: {method}, path: '{path}'}}\n{answer}{processors}{rest}"
    return manifest("KasprWebView", name, spec)


@dataclass
class Shop:
    """An application on a warehouse, and a client of its server."""

    folder: Path
    schema: str = "shop"
    client: httpx.Client = field(init=False)

    @property
    def delta(self) -> DeltaRs:
        return delta_rs(Warehouse(str(self.folder)).namespace(self.schema))

    def apply(self, *manifests: str) -> None:
        loaded = load_text("---\n".join(manifests), "manifests.yaml")
        assert not loaded.findings, loaded.findings
        apply_manifests(Warehouse(str(self.folder)), loaded)

    def make(self, plan: TablePlan) -> None:
        self.delta.ensure(plan.delta_name, table_layout(plan))

    def put(self, plan: TablePlan, rows: Mapping[Any, Any]) -> None:
        """Append rows, as a first load does."""
        now = datetime.now(timezone.utc)
        given = [{"key": canonical_key(k), "value": json.dumps(v), "timestamp": now} for k, v in rows.items()]
        append_rows(self.delta, plan.delta_name, table_layout(plan), *given)


@contextlib.contextmanager
def served(shop: Shop, *, root_path: str = "", **options: Any) -> Iterator[Shop]:
    """The application behind a real server on this machine, in a thread."""
    with served_by_uvicorn(web_application(shop.delta.namespace, **options), root_path=root_path) as shop.client:
        yield shop


Serving = Callable[..., contextlib.AbstractContextManager[Shop]]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "wh")


@pytest.fixture
def serving(shop: Shop) -> Serving:
    """Apply manifests and serve them."""

    @contextlib.contextmanager
    def start(*manifests: str, **options: Any) -> Iterator[Shop]:
        if manifests:
            shop.apply(*manifests)
        with served(shop, **options) as running:
            yield running

    return start


def wait_for(question: Callable[[], Any], seconds: float = 10.0) -> Any:
    """The first true result of ``question``, which is called until then."""
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < deadline, "it never became true"
        time.sleep(0.02)
    return answer


def plan_of(shop: Shop, table: str) -> TablePlan:
    """The plan of a table that was applied."""
    from kaspr_delta.control.documents import loaded
    from kaspr_delta.plan.builder.build import build_plans
    from kaspr_delta.runtime.applying import registry_of

    (plan,), _ = build_plans(loaded(registry_of(Warehouse(str(shop.folder)), shop.schema).documents()))
    return plan.known_table(table)
