"""Real kills: all others run first, then one resource in a process that dies at one of its writes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import networkx as nx

from kaspr_delta import Application
from kaspr_delta.plan.definition.application import Plan

_ROOT = Path(__file__).parents[2]

Point = tuple[str, str]
"""A Delta table, and ``before`` or ``after`` it is written."""


def around(tables: Iterable[str]) -> list[Point]:
    """Before and after each of these writes."""
    return [(table, moment) for table in tables for moment in ("before", "after")]


def flow(plan: Plan) -> nx.DiGraph[str]:
    """Who feeds whom."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_edges_from((edge.source, edge.target) for edge in plan.edges)
    return graph


def run_others(app: Application, victim: str) -> None:
    """Run all that does not wait for a resource: what it depends on is there when it is killed."""
    waiting = {victim, *nx.descendants(flow(app.plan), victim)}
    refs = [str(ref) for stage in app.plan.stages for ref in stage.resources]
    if others := [ref for ref in refs if ref not in waiting]:
        app.run(only=others)


def killed(manifests: Path, warehouse: Path, victim: str, point: Point) -> None:
    """Run a resource in a process that is killed at the point."""
    command = [sys.executable, "-m", "tests.spark.killed_run", str(manifests), str(warehouse), victim, *point]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=600, check=False)  # noqa: S603
    assert done.returncode == -9, done.stdout + done.stderr
