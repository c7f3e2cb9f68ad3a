"""The Spark session of a process: the embedded one, that of databricks-connect, or that of a cluster."""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kaspr_delta.errors import SetupError, first_line
from kaspr_delta.extras import required
from kaspr_delta.runtime.java import check_java
from kaspr_delta.runtime.spark_settings import ON_THIS_MACHINE, SETTINGS, merged, runs_on_this_machine, spark_defaults
from kaspr_delta.runtime.versions import refuse_old_databricks, spark_is_elsewhere
from kaspr_delta.runtime.workers import check_workers
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.stores import LOG_STORE, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_session(log: Path | None = None, store: Store | None = None, folder: Path | None = None) -> SparkSession:
    """The running session, or a new one that reaches a store; its JVM writes its standard error to ``log``.

    A new one runs on this machine, or on the cluster that ``KASPR_DELTA_MASTER``, ``spark-submit`` or
    ``spark-defaults.conf`` names; then its workers must see the ``folder`` of the warehouse. On Databricks and under
    Spark Connect none is started. Raises SetupError if Java or the packages of the extra ``local`` are missing, or if
    the workers cannot do the work, and on compute of Databricks that is too old.
    """
    refuse_old_databricks()
    with required():
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    with contextlib.suppress(PySparkException):  # there is none
        return SparkSession.active()
    if spark_is_elsewhere():
        return SparkSession.builder.getOrCreate()
    return _started(log, store, folder)


def session_for(warehouse: Warehouse) -> SparkSession:
    """The running session, or a new one that reaches a warehouse. Raises SetupError."""
    folder = Path(warehouse.folder) if warehouse.is_here else None
    return spark_session(warehouse.log_file, warehouse.store, folder)


def databricks_session(profile: str) -> SparkSession:
    """A session on Databricks compute, through databricks-connect, for a profile in ``~/.databrickscfg``.

    Raises SetupError if the extra ``connect`` is missing or the workspace gives no session.
    """
    try:
        from databricks.connect import DatabricksSession
    except ImportError as error:
        raise SetupError(
            "databricks-connect is not installed: pip install 'kaspr-delta[connect]', in an environment without the"
            " extra 'local', for both are the package pyspark"
        ) from error
    try:
        session: SparkSession = DatabricksSession.builder.profile(profile).getOrCreate()
    except Exception as error:
        raise SetupError(f"profile {profile!r} gives no Spark session: {first_line(error)}") from error
    return session


def _started(log: Path | None, store: Store | None, folder: Path | None) -> SparkSession:
    check_java()
    with required():
        from delta import configure_spark_with_delta_pip
        from pyspark.sql import SparkSession

    given = _submitted() if _is_submitted() else spark_defaults()
    master = os.environ.get("KASPR_DELTA_MASTER") or given.get("spark.master", "local[*]")
    is_here = runs_on_this_machine(master)
    # Workers on this machine run this interpreter: another python on the PATH does not have our packages.
    os.environ.setdefault("PYSPARK_PYTHON", given.get("spark.pyspark.python", sys.executable))
    # Here Spark makes a folder for every schema, and puts tables without a location. Its catalog ends with the process,
    # and files left here would be in the way of the next process.
    scratch = tempfile.mkdtemp(prefix="kaspr-delta-schemas-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    ours = {
        **SETTINGS,
        **(ON_THIS_MACHINE if is_here else {}),
        **({} if store is None else store.settings()),
        "spark.driver.memory": os.environ.get("KASPR_DELTA_DRIVER_MEMORY", "2g"),
        "spark.sql.warehouse.dir": scratch,
    }
    builder = SparkSession.builder.appName("kaspr-delta").master(master)
    for name, value in merged(ours, given).items():
        builder = builder.config(name, value)
    packages = [] if store is None else store.packages(_hadoop())
    packages += _entries(given, "spark.jars.packages")
    jars = [*_entries(given, "spark.jars"), *([] if store is None else [str(LOG_STORE)])]
    with _stderr_to(log), _with_jars(jars):
        try:
            session: SparkSession = configure_spark_with_delta_pip(builder, packages).getOrCreate()
        except Exception as error:
            where = f"; see {log}" if log is not None else ""
            raise SetupError(f"Spark does not start ({first_line(error)}){where}") from error
    if _is_submitted():
        _check_delta(session)
    if not is_here:
        check_workers(session, folder)
    return session


def _is_submitted() -> bool:
    """Whether spark-submit started this process, beside a JVM that has the settings."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _submitted() -> dict[str, str]:
    """The settings that spark-submit was given."""
    from pyspark import SparkConf

    return dict(SparkConf().getAll())


def _entries(settings: Mapping[str, str], name: str) -> list[str]:
    """The entries of a setting that is a list, with commas."""
    return list(filter(None, settings.get(name, "").split(",")))


def _check_delta(session: SparkSession) -> None:
    """Raise SetupError if spark-submit started a JVM without Delta: nobody else can give it packages."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has none
    from pyspark.errors import PySparkException

    try:
        session.sql("SHOW SCHEMAS")
    except (Py4JError, PySparkException) as error:
        packages = session.conf.get("spark.jars.packages")
        raise SetupError(
            f"spark-submit started a Spark without Delta: give it --packages {packages}, or name them as"
            " spark.jars.packages in spark-defaults.conf"
        ) from error


def _hadoop() -> str:
    """The version of Hadoop in Spark."""
    import pyspark

    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent  # spark-submit has pyspark in an archive
    names = (jar.stem for jar in Path(home).glob("jars/hadoop-client-api-*.jar"))
    return next((name.rpartition("-")[2] for name in names), "")


@contextlib.contextmanager
def _with_jars(jars: Sequence[str]) -> Iterator[None]:
    """Let a JVM that is started meanwhile have jars.

    As the setting ``spark.jars`` they would take the place of the jars of packages on the workers of a cluster.
    """
    name = "PYSPARK_SUBMIT_ARGS"
    given = os.environ.get(name)
    if jars:
        os.environ[name] = f"--jars {shlex.quote(','.join(jars))} {given or 'pyspark-shell'}"
    try:
        yield
    finally:
        os.environ.pop(name, None)
        if given is not None:
            os.environ[name] = given


@contextlib.contextmanager
def _stderr_to(log: Path | None) -> Iterator[None]:
    """Redirect the standard error of processes started meanwhile (the JVM) to a file."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    saved = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
