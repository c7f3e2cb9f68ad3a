"""``python -m benchmarks.report``: ``docs/benchmarks.md`` and its picture from ``results/latest.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.results import LATEST, MACHINE, number

DOCS = Path(__file__).resolve().parents[1] / "docs"
_PICTURE = "benchmarks.svg"
_KEPT, _MISSED, _NO_GOAL = "#2e7d5b", "#b4472e", "#7a8594"

_PAGE = """# Benchmarks

What changes, runs and first loads cost, as ratios to what one would write without this package, both in one run on one
machine. `make bench` measures all of it with up to 1 M rows, `make bench-large` what has 10 M;
`python -m benchmarks NAME --rows 10000` is a short look at one. This page is written from what they found, by
`python -m benchmarks.report`: a goal that is missed stands here as one.

{machine}

![ratios of ours to the peers]({picture})

{table}

Below 1 the ratio of seconds is for us, above 1 that of rows a second. CPU are processor seconds of all processes
together; of rows a second, those for a million rows.

## What is compared

* **Readable on the channel** is until the batch is in the log of the join, which agents read; **folded** is until its
  result table has it too, and the progress is written. Both are taken from the times of the commits, beginning with
  that of the change. The subscriptions, which only the join reads, follow at the end of a continuous run; in B2
  and B3 that is shared among their batches.
* Rows are about 200 bytes of JSON, keys are scattered over the files, the foreign key is found by a Python function.
  The stream runs, with a trigger of 100 ms, but for first loads and scheduled runs.
* What comes first does not count: a JVM that has compiled neither the plans nor its code takes many times as long.
  Ours and the peer's take turns.
* A machine that shares its processors gives other figures every time. Where little is left to the goal, these are the
  ratios that several runs found: **B1** folded 1.5 to 1.8, **B5** 100 orders of 10 M 1.3 to 1.9, **B8** nothing new
  1.02 to 1.33.
* **B1** Plain Spark reads both tables, finds the foreign key with `get_json_object`, joins and writes one Delta
  table. DuckDB reads the same Parquet files and joins them in the same way, and delta-rs writes the Delta table: what
  one would use on one machine without Spark. It keeps no changelog, and emits no changes.
* **B2** Recomputing is the same again, by Spark and by DuckDB. The usual notebook is a `foreachBatch` over the change
  feed of the orders, joined with the whole table of products and merged by key into the result, with default settings.
  The join rests while these are measured.
* **B3**, **B4** The lone MERGE has its rows at hand and nothing else to do. In B3 it is into a table with a change
  feed, as the result is; in B4 it runs in a `foreachBatch`, without adaptive planning and deletion vectors.
* **B5** The peer is the same batch on smaller tables. A fold writes files anew and is for all batches that waited for
  it: the more often they come, the less of it has each. Here they came twice a minute at 10 M rows.
* **B6** Neither the bare function in `mapInArrow` nor the process that counts can go on where a kill stopped them. What
  agents do for that is in [cost.md](cost.md#agents).
* **B7** Kafka Streams' foreign-key join was measured on a machine of this kind, with two shared cores: a real broker
  and the application in one JVM over loopback, 200 k x 10 k rows of 189 bytes, 4 partitions, 2 threads, caches off.
  At its best setting, `linger.ms` 100, it joined 16.0 k rows a second. It takes 7 ms for one change with no linger,
  and 0.3 s with 100 ms: where milliseconds count, take Kafka Streams.
* **B8** A run opens the application and runs it until it is quiet, in a JVM that is there. The peer's queries are
  started and drained one after the other.
* **B9** Memory is that of all processes, JVM and Python, which merges what is on the driver; the goal is for the
  heap, with which these have to end.
* **example** Stages of the order enrichment that `make demo` shows, each run alone.
"""


def main() -> None:
    """Write the page and its picture."""
    # Benchmarks may have run in any order. Those with a number come first, ``example`` comes last.
    lines = sorted(json.loads(LATEST.read_text()), key=lambda line: line["benchmark"])
    machine = json.loads(MACHINE.read_text())
    (DOCS / "benchmarks.md").write_text(page(lines, machine))
    draw(lines, DOCS / _PICTURE)


def page(lines: list[dict[str, Any]], machine: dict[str, Any]) -> str:
    """The page, in Markdown."""
    return _PAGE.format(machine=_machine(machine), picture=_PICTURE, table=_table(lines))


def _machine(machine: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    rows = [("machine", machine["machine"]), ("system", machine["system"]), ("versions", versions)]
    rows += [
        ("run", f"`{run['command']}` with a driver of {run['driver memory']}, ended {run['ended']}")
        for run in machine["runs"]
    ]
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows)])


def _table(lines: list[dict[str, Any]]) -> str:
    head = "| | measured | against | ours | peer | ratio | goal | kept | CPU s | peer's |"
    rows = [head, "|---|---|---|--:|--:|--:|---|---|--:|--:|"]
    for line in lines:
        figures = (number(line["ours"], line["unit"]), number(line["peer"], line["unit"]))
        ratio = "" if line["ratio"] is None else f"{line['ratio']:.2f}"
        kept = {True: "yes", False: "**missed**", None: ""}[line["holds"]]
        cpu = (f"{line[name]:.1f}" if line[name] else "" for name in ("cpu", "peer_cpu"))
        cells = (line["benchmark"], line["name"], line["note"], *figures, ratio, line["goal"] or "", kept, *cpu)
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def draw(lines: list[dict[str, Any]], file: Path) -> None:
    """Draw each ratio that has a goal as a bar, in multiples of the goal: a bar that ends before the line keeps it."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with_goals = [line for line in lines if line["ratio"] is not None and line["goal"]]
    figure = Figure(figsize=(10, 0.6 + 0.34 * len(with_goals)), layout="constrained")
    axes = figure.subplots()
    values = [_of_the_goal(line) for line in with_goals]
    colors = [_KEPT if line["holds"] else _MISSED for line in with_goals]
    names = [f"{line['benchmark']} {line['name']}" for line in with_goals]
    axes.barh(names, values, color=colors, height=0.62)
    axes.axvline(1, color=_NO_GOAL, linewidth=1)
    axes.set_xlim(0, 1.12 * max([1, *values]))
    axes.set_title("cost as a multiple of the goal: up to 1 it is kept", loc="left", fontsize=9)
    axes.invert_yaxis()
    axes.tick_params(labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for position, value in enumerate(values):
        axes.annotate(f"{value:.2g}", (value, position), xytext=(4, 0), textcoords="offset points", va="center", size=8)
    # The same figures give the same file.
    with mpl.rc_context({"svg.hashsalt": "kaspr-delta", "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata={"Date": None})


def _of_the_goal(line: dict[str, Any]) -> float:
    sign, _, goal = line["goal"].partition(" ")
    ratio, bound = float(line["ratio"]), float(goal.split()[0])
    return ratio / bound if sign == "<=" else bound / ratio


if __name__ == "__main__":
    main()
