"""``kaspr-delta doctor``: check this machine, and probe a warehouse."""

from __future__ import annotations

import json
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer
from rich.text import Text

from kaspr_delta.cli.interruption import off_main_thread
from kaspr_delta.cli.progress import note, results, table_of, warn, working
from kaspr_delta.cli.target import Target
from kaspr_delta.errors import SetupError, UsageError
from kaspr_delta.grant import Grant
from kaspr_delta.plan.names import delta_name
from kaspr_delta.runtime.java import check_java
from kaspr_delta.runtime.versions import Versions, installed, spark_is_elsewhere
from kaspr_delta.spec.durations import interval
from kaspr_delta.storage.namespace import Warehouse

if TYPE_CHECKING:
    from kaspr_delta.plan.definition.application import Plan
    from kaspr_delta.runtime.doctor.examination import Wanted
    from kaspr_delta.runtime.doctor.probe import Answer, Probe

DoctorOutput = Literal["text", "json"]
"""The forms in which answers are shown."""

Line: TypeAlias = dict[str, str]
"""An answer: ``probe``, ``answer`` and ``seen``; of a probe of the warehouse also ``question`` and ``effect``."""

_REPORT = "doctor.json"
# Seconds for the probes of a store, which may not answer.
_OF_A_STORE = 20.0
_STYLES = {"ok": "green", "note": "yellow", "problem": "red"}


def doctor(
    target: Target,
    path: Annotated[
        Path | None, typer.Argument(help="Manifests whose sources are probed too: a file or a folder.")
    ] = None,
    probe: Annotated[bool, typer.Option("--probe", help="Start Spark, and probe the warehouse.")] = False,
    within: Annotated[str, typer.Option(help="The longest time for all probes.")] = "5m",
    grant: Annotated[
        list[str] | None,
        typer.Option("--grant", metavar="WHO=PRIVILEGES", help="In a catalog: a grant that `run` will be given."),
    ] = None,
    grant_internal: Annotated[
        list[str] | None,
        # Only jobs of the bundle use it.
        typer.Option("--grant-internal", hidden=True, help="The same on the schema of internal tables."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="A note is a problem too.")] = False,
    # A parameter of the bundle's job has a value.
    notes: Annotated[Literal["pass", "fail"], typer.Option("--notes", hidden=True, help="fail: as --strict.")] = "pass",
    # Only jobs of the bundle use the next ones.
    started_job: Annotated[str, typer.Option(hidden=True, help="A job that tasks start: the right is probed.")] = "",
    sql_warehouse: Annotated[str, typer.Option(hidden=True, help="The same of the SQL warehouse of alerts.")] = "",
    job: Annotated[list[str] | None, typer.Option("--job", hidden=True, help="A job of the application.")] = None,
    app_principal: Annotated[str, typer.Option(hidden=True, help="The service principal of the App.")] = "",
    watcher: Annotated[
        list[str] | None, typer.Option("--watcher", hidden=True, help="A principal that looks at the dashboard.")
    ] = None,
    dashboard_warehouse: Annotated[str, typer.Option(hidden=True, help="The SQL warehouse of the dashboard.")] = "",
    in_pair: Annotated[bool, typer.Option("--in-pair", hidden=True, help="A second task does the same.")] = False,
    output: Annotated[DoctorOutput, typer.Option("--output", "-o", help="Tables, or one JSON object.")] = "text",
) -> None:
    """Check Python, Java, packages, Delta's jars and write access, and say how to mend what is missing.

    With --probe or a PATH, and in a Databricks job over a catalog, Spark is started. Then the engine's own reads and
    writes are tried, on tables and files with `kaspr_doctor` in their names. They are removed at the end. Each answer
    says what the engine does about it. The manifests are not applied. All answers are in `doctor.json` too, in
    the folder of the warehouse or in the volume.

    A bucket is always probed, by files and without Spark, in less than half a minute. It has no other probes.

    The exit code is 1 if something is missing or a probe finds a problem, else 0. A note is no problem, unless --strict
    says so.

    For example:

        kaspr-delta doctor
        kaspr-delta doctor --warehouse /data/warehouse
        kaspr-delta doctor bundles/order-system --probe -o json
    """
    seconds = interval("--within", within) / 1_000
    grants, on_internal = ([Grant.of(text) for text in texts or ()] for texts in (grant, grant_internal))

    def wanted_of(plan: Plan | None) -> Wanted:
        from kaspr_delta.runtime.doctor.examination import Wanted
        from kaspr_delta.runtime.doctor.identities import Identities

        granted = tuple(dict.fromkeys(one.principal for one in (*grants, *on_internal)))
        others = Identities(granted, app_principal, tuple(watcher or ()), dashboard_warehouse, tuple(job or ()))
        return Wanted(plan, grants, on_internal, started_job, sql_warehouse, in_pair, others)

    in_bucket = target.location.store is not None
    if in_bucket and path is not None:
        raise UsageError("sources of manifests are not probed over a bucket: call the command without PATH")
    probes = probe or path is not None or (target.location.is_unity and spark_is_elsewhere())
    report = {"warehouse": target.location.text, "at": datetime.now(timezone.utc).isoformat(timespec="seconds")}
    answers = list(_checked(target.location))
    if output == "text":
        for one in answers:
            typer.echo(f"{'missing' if one['answer'] == 'problem' else 'ok':7}  {one['probe']}: {one['seen']}")
    if in_bucket or (probes and not _has_problem(answers)):  # a store needs no Java
        with working("Probing the warehouse"):
            found, folder = off_main_thread(lambda: _probed(target, path, wanted_of, seconds))
        answers += found
        if output == "text":
            _show(found)
        if folder is not None:
            _write({**report, "answers": answers}, folder)
    if output == "json":
        typer.echo(_text({**report, "answers": answers}))
    if _has_problem(answers) or ((strict or notes == "fail") and any(one["answer"] == "note" for one in answers)):
        raise typer.Exit(1)


def _checked(location: Warehouse) -> Iterator[Line]:
    """The checks of this machine, without Spark."""
    checks: dict[str, Callable[[], str]] = {
        "python": lambda: f"{platform.python_version()} ({sys.executable})",
        "java": lambda: f"version {check_java()}",
        "pyspark": lambda: _package("pyspark"),
        "delta-spark": lambda: _package("delta-spark"),
        "delta jars": _jars,
        "versions": _versions,
        "warehouse": lambda: _writable(location),
    }
    if location.store is not None:  # it is probed
        del checks["warehouse"]
    if spark_is_elsewhere():  # there it has its Java and Delta
        checks = {name: check for name, check in checks.items() if name in {"python", "warehouse"}}
    for name, check in checks.items():
        try:
            yield {"probe": name, "answer": "ok", "seen": check()}
        except SetupError as problem:
            yield {"probe": name, "answer": "problem", "seen": str(problem)}


def _probed(
    target: Target, path: Path | None, wanted_of: Callable[[Plan | None], Wanted], seconds: float
) -> tuple[list[Line], Path | None]:
    """The answers of all probes, and the folder for the report; None in a bucket, and if another doctor writes it."""
    if target.location.store is not None:
        return _store_probed(target.location, seconds), None
    from kaspr_delta.runtime.applying import only_plan
    from kaspr_delta.runtime.doctor.bench import SCRATCH, Bench
    from kaspr_delta.runtime.doctor.examination import ANOTHER, examine
    from kaspr_delta.runtime.session import spark_session
    from kaspr_delta.storage.opening import open_tables

    location = target.location
    plan = None if path is None else only_plan(target.load(path), target.app)  # before Spark starts
    scratch = location.scratch(SCRATCH)
    named = plan.schema if plan else delta_name(target.app or "")
    namespace = scratch.namespace(named if location.is_unity else SCRATCH)
    bench = Bench(spark_session(location.log_file), open_tables(namespace))
    found = _lines(examine(bench, wanted_of(plan), seconds))
    if found[0]["probe"] == ANOTHER.name:
        return found, None
    if namespace.disk is None:
        return found, Path(str(namespace.checkpoints))
    shutil.rmtree(namespace.disk, ignore_errors=True)
    return found, namespace.disk.parent


def _store_probed(location: Warehouse, seconds: float) -> list[Line]:
    from kaspr_delta.runtime.doctor.store import examine_store

    return _lines(examine_store(location, min(seconds, _OF_A_STORE)))


def _lines(answered: Iterable[tuple[Probe[Any], Answer]]) -> list[Line]:
    return [
        {
            "probe": one.name,
            "question": one.question,
            "answer": answer.grade,
            "seen": answer.seen,
            "effect": answer.effect,
        }
        for one, answer in answered
    ]


def _has_problem(answers: Iterable[Line]) -> bool:
    return any(one["answer"] == "problem" for one in answers)


def _show(answers: Iterable[Line]) -> None:
    table = table_of(("probe", "answer", "seen", "what the engine does"))
    for one in answers:
        seen, *_ = one["seen"].splitlines() or [""]  # errors of Spark have advice below
        texts = (one["probe"], one["answer"], seen, one["effect"])
        table.add_row(*(Text(text, _STYLES.get(text, "")) for text in texts))
    results().print(table)


def _write(report: Mapping[str, object], folder: Path) -> None:
    file = folder / _REPORT
    new = folder / f"_{_REPORT}"
    try:
        new.write_text(_text(report) + "\n", encoding="utf-8")
        new.replace(file)
    except OSError as error:
        warn(f"{file} cannot be written: {error.strerror}")
    else:
        note(f"all answers are in {file}")


def _text(report: Mapping[str, object]) -> str:
    return json.dumps(report, indent=2, ensure_ascii=False)


def _package(name: str) -> str:
    version = installed(name)
    if version is None:
        raise SetupError("not installed: pip install 'kaspr-delta[local]'")
    return version


def _versions() -> str:
    versions = Versions.with_spark(_package("pyspark"))
    return versions.warning or f"{versions}: the tests run on these"


def _jars() -> str:
    version = _package("delta-spark")
    found = list(Path.home().glob(f".ivy2*/jars/io.delta_delta-spark*-{version}.jar"))
    return f"in {found[0].parent}" if found else "not downloaded yet (about 90 MB at the first start, once)"


def _writable(location: Warehouse) -> str:
    if location.is_unity:
        return f"{location.text} (checked by --probe, or when a command runs)"
    folder = Path(location.folder)
    try:
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        with tempfile.TemporaryFile(dir=existing):
            return f"{folder} can be written"
    except OSError as error:
        raise SetupError(
            f"{folder} cannot be written ({error.strerror}): choose another folder with --warehouse"
        ) from error
