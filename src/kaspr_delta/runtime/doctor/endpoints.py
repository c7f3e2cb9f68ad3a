"""Probes of the endpoints of bound topics: folders of files, and passwords for Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from kaspr_delta.errors import SetupError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.bindings import FilesPlan, KafkaPlan, LoginPlan
from kaspr_delta.runtime.doctor.bench import SCRATCH, Bench
from kaspr_delta.runtime.doctor.probe import Probe
from kaspr_delta.secrets import password_of


def password(login: LoginPlan, _: Bench) -> str:
    """Read the password with which a topic logs in."""
    return "there" if password_of(login.password) else "there, and empty"


def read_files(endpoint: FilesPlan, bench: Bench) -> str:
    """List the files of a folder."""
    if not endpoint.path.startswith("/"):
        bench.spark.read.format("binaryFile").load(endpoint.path).limit(0).collect()
        return "its files were listed"
    if Path(endpoint.path).is_dir():
        return f"it has {'files' if any(Path(endpoint.path).iterdir()) else 'no files yet'}"
    if bench.delta.namespace.on_databricks:
        raise SetupError(f"{endpoint.path} is not there")
    return "not there yet: the run makes it"


def write_files(endpoint: FilesPlan, bench: Bench) -> str:
    """Write a file to a folder, and remove it. One at a URI stays, in a folder that Spark's readers leave out."""
    if not endpoint.path.startswith("/"):
        rows = bench.spark.range(1).selectExpr("CAST(id AS STRING) AS value")
        rows.write.mode("overwrite").text(f"{endpoint.path}/{SCRATCH}")
        return f"a file was written to its folder {SCRATCH}, and stays there"
    file = Path(endpoint.path, SCRATCH)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    file.unlink()
    return "a file was written and removed"


def probes(plan: Plan) -> Iterator[Probe]:
    """The probes of all bound topics."""
    for topic in plan.topics:
        binding = topic.binding
        endpoint = None if binding is None else binding.endpoint
        if isinstance(endpoint, KafkaPlan) and endpoint.login is not None:
            yield Probe(
                f"password of {topic.name}",
                "May the password be read with which it logs in to Kafka?",
                partial(password, endpoint.login),
                "its reader or writer logs in with it",
                "its reader or writer fails; the others run",
                ("READ",),
            )
        elif binding is not None and isinstance(endpoint, FilesPlan) and binding.direction == "input":
            yield Probe(
                f"files for {topic.name}",
                "May the files of its folder be listed?",
                partial(read_files, endpoint),
                "each new file is read once",
                "its reader fails; the others run",
                ("READ VOLUME", "READ FILES"),
            )
        elif isinstance(endpoint, FilesPlan):
            yield Probe(
                f"files of {topic.name}",
                "May files be written to its folder?",
                partial(write_files, endpoint),
                "each batch is a folder in it",
                "its writer fails; the others run",
                ("WRITE VOLUME", "WRITE FILES"),
            )
