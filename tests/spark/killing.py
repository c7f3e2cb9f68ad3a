"""Real kills: the inputs of the victim run first, then the victim, in a process that is killed at one of its writes."""

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


def around_writes(tables: Iterable[str]) -> list[Point]:
    """The points before and after the write to each table."""
    return [(table, moment) for table in tables for moment in ("before", "after")]


def flow(plan: Plan) -> nx.DiGraph[str]:
    """The flow of data as a graph: an edge leads from a topic or resource to a reader or result of it."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_edges_from((edge.source, edge.target) for edge in plan.edges)
    return graph


def run_others(app: Application, victim: str) -> None:
    """Run all resources that do not depend on the victim, so that its inputs are complete when it is killed."""
    victim_and_dependents = {victim, *nx.descendants(flow(app.plan), victim)}
    refs = [str(ref) for stage in app.plan.stages for ref in stage.resources]
    if others := [ref for ref in refs if ref not in victim_and_dependents]:
        app.run(only=others)


def killed(manifests: Path, warehouse: Path, victim: str, point: Point) -> None:
    """Run a resource in a process that is killed at the point."""
    command = [sys.executable, "-m", "tests.spark.killed_run", str(manifests), str(warehouse), victim, *point]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=600, check=False)  # noqa: S603
    assert done.returncode == -9, done.stdout + done.stderr
