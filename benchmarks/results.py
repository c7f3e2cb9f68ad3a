"""Output of measurements: a table on the screen, a JSON file of results, and a JSON file about the machine."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import shlex
import subprocess
from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.harness import Measurement

RESULTS = Path(__file__).parent / "results"
LATEST = RESULTS / "latest.json"
MACHINE = RESULTS / "machine.json"
_PACKAGES = ("kaspr-delta", "pyspark", "delta-spark", "deltalake", "pyarrow")


def publish(measurements: Iterable[Measurement], command: list[str], file: Path, *, add: bool) -> None:
    """Print measurements and write them to a file as they come; ``add``: to the lines that the file has already."""
    RESULTS.mkdir(exist_ok=True)
    lines = json.loads(file.read_text()) if add and file.exists() else []
    runs = json.loads(MACHINE.read_text())["runs"] if lines and MACHINE.exists() else []
    console = Console(highlight=False)
    measured = []
    for measurement in measurements:
        measured.append(measurement)
        lines = [
            line for line in lines if (line["benchmark"], line["name"]) != (measurement.benchmark, measurement.name)
        ]
        lines.append(asdict(measurement))
        file.write_text(json.dumps(lines, indent=2) + "\n")
        if file == LATEST:
            MACHINE.write_text(json.dumps(_machine([*runs, _run(command)]), indent=2) + "\n")
        console.print(f"{measurement.benchmark} {measurement.name}: {in_words(asdict(measurement))}")
    console.print(_table(measured))


def in_words(line: dict[str, Any]) -> str:
    """A line of the results as text."""
    unit = line["unit"]
    ours, peer = (number(line[name], unit) for name in ("ours", "peer"))
    against = f" against {peer}, ratio {line['ratio']}" if peer else ""
    goal = f" (goal {line['goal']}{'' if line['holds'] else ', missed'})" if line["goal"] else ""
    return f"{ours}{against}{goal}"


def number(value: float | None, unit: str) -> str:
    """A measured value with its unit; an empty text for None."""
    if value is None:
        return ""
    return f"{value:,.0f} {unit}" if abs(value) >= 100 else f"{value:.3g} {unit}"  # noqa: PLR2004


def _table(measured: list[Measurement]) -> Table:
    table = Table("", "measured", box=None, header_style="bold")
    for heading in ("ours", "peer", "ratio", "goal", "CPU s", "peer's"):
        table.add_column(heading, justify="right")
    for m in measured:
        ratio = "" if m.ratio is None else f"{m.ratio:.2f}"
        color = "default" if m.holds is None else "green" if m.holds else "red"
        cpu = (f"{seconds:.1f}" if seconds else "" for seconds in (m.cpu, m.peer_cpu))
        figures = number(m.ours, m.unit), number(m.peer, m.unit), f"[{color}]{ratio}[/]", m.goal or "", *cpu
        table.add_row(m.benchmark, m.name, *figures)
    return table


def _run(command: list[str]) -> dict[str, Any]:
    return {
        "command": shlex.join(["python", "-m", "benchmarks", *command]),
        "ended": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "driver memory": os.environ.get("KASPR_DELTA_DRIVER_MEMORY", "2g"),
    }


def _machine(runs: list[dict[str, Any]]) -> dict[str, Any]:
    versions = {"python": platform.python_version(), "java": _java()}
    versions |= {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {
        "runs": runs,
        "machine": f"{_processor()}, {os.cpu_count()} cores, {_memory()} GiB",
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}, {' '.join(platform.libc_ver())}",
        "versions": versions,
    }


def _java() -> str:
    told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S607
    return told.split('"')[1] if '"' in told else ""


def _processor() -> str:
    found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def _memory() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
