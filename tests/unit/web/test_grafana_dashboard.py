"""The dashboard for Grafana names metrics that the server has."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

from kaspr_delta.engine.batch.counters import LABELS
from kaspr_delta.web.metrics import Metrics
from tests.documented import ROOT

DASHBOARD = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text())


def test_each_metric_and_label_of_a_query_is_served() -> None:
    counted = [
        SimpleNamespace(name=name, labels=dict.fromkeys(labels, "x"), value=1) for name, labels in LABELS.items()
    ]
    resource = SimpleNamespace(resource="join/a", rows_in=1, rows_out=1, failures=1)
    status: Any = SimpleNamespace(metrics=counted, resources=[resource])
    plan: Any = SimpleNamespace(application_id="shop-app")
    metrics = Metrics(lambda: plan, lambda: status, lambda: {"orders": 3})
    metrics.answered(500, 0.1)
    samples = re.findall(r"(?m)^(kaspr_\w+)\{(.*)\} ", metrics.text().decode())
    served = {name: set(re.findall(r"(\w+)=", labels)) for name, labels in samples}
    queries = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    assert queries
    for query in queries:
        ((name, matched),) = re.findall(r"(kaspr_\w+)\{([^}]*)\}", query)
        assert {*re.findall(r"(\w+)=", matched), *re.findall(r"\w+", "".join(re.findall(r"by \((.*?)\)", query)))} <= (
            served[name]
        ), query
    assert DASHBOARD["templating"]["list"][1]["query"] == "label_values(kaspr_app_info, app_name)"
    assert "app_name" in served["kaspr_app_info"]


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for at in [panel["gridPos"]]
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
