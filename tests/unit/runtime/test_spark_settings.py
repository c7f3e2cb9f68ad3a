from __future__ import annotations

from pathlib import Path

import pytest

from kaspr_delta.runtime.spark_settings import merged, runs_on_this_machine, spark_defaults


@pytest.mark.parametrize(
    ("master", "here"),
    [("local", True), ("local[*]", True), ("local[4,2]", True)]
    + [(master, False) for master in ("local-cluster[2,1,1024]", "spark://local:7077", "k8s://https://local", "yarn")],
)
def test_only_local_masters_run_tasks_in_this_process(master: str, here: bool) -> None:
    assert runs_on_this_machine(master) is here


def test_defaults_are_read_as_spark_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text(
        "# spark.ui.enabled true\n\nspark.master   spark://one:7077  \n"
        "spark.executor.extraJavaOptions -XX:+PrintGC -Dkey=value\nspark.app.name=shop\nspark.home : /opt\n"
    )
    assert spark_defaults() == {
        "spark.master": "spark://one:7077",
        "spark.executor.extraJavaOptions": "-XX:+PrintGC -Dkey=value",
        "spark.app.name": "shop",
        "spark.home": "/opt",
    }


def test_without_a_file_there_are_no_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert spark_defaults() == {}
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert spark_defaults() == {}
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.master yarn\n")
    assert spark_defaults() == {"spark.master": "yarn"}


def test_a_users_setting_wins_and_lists_have_the_entries_of_both() -> None:
    ours = {"spark.ui.enabled": "false", "spark.sql.extensions": "ours", "spark.log.level": "ERROR"}
    given = {"spark.ui.enabled": "true", "spark.sql.extensions": "theirs", "spark.executor.memory": "8g"}
    assert merged(ours, given) == {"spark.sql.extensions": "theirs,ours", "spark.log.level": "ERROR"}
