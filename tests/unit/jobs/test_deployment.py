from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from kaspr_delta.errors import UsageError
from kaspr_delta.jobs import Deployment


def test_variables_of_the_bundle_become_settings() -> None:
    deployment = Deployment.from_variables({"application": "shop", "mode": "continuous", "workers": "3", "else": "x"})
    assert (deployment.folder, deployment.workers, deployment.mode) == ("bundles/shop", 3, "continuous")


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"mode": "continous"}, "did you mean 'continuous'?"),
        ({"compute": "gpu"}, "there are: cluster, default, serverless"),
        ({"catalog": " "}, "variable 'catalog': it is empty"),
        ({"workers": "many"}, "variable 'workers' is 'many', expected a number"),
        ({"workers": "-1"}, "variable 'workers' is '-1', expected a number"),
        ({"internal_suffix": "-x"}, "variable 'internal_suffix': '-x' is no part of a name"),
        ({"environment_version": "3"}, "variable 'environment_version': 3 is too old, expected 4 or more"),
        ({"spark_version": "16.4.x-scala2.12"}, "'spark_version': 16.4.x-scala2.12 is too old, expected 17 or more"),
        ({"schedule": "hourly"}, "variable 'schedule': 'hourly' has 1 field, expected 6 or 7"),
        ({"timezone": "Mars"}, "variable 'timezone': 'Mars' is no time zone"),
        ({"retries": "-1"}, "variable 'retries' is '-1', expected a number"),
        ({"timeout_minutes": "0"}, "variable 'timeout_minutes': it is 0, expected 1 or more"),
        ({"backlog_bytes": "1G"}, "variable 'backlog_bytes' is '1G', expected a number"),
        ({"read_as_visitor": "yes"}, "there are: false, true"),
        ({"package": "shop==1.0"}, "variable 'package' is 'shop==1.0', expected kaspr-delta==VERSION or"),
        ({"notify": "ann@example.com, bob"}, "variable 'notify': 'bob' is no mail address"),
        ({"layout": "many"}, "there are: default, group, one, resource"),
        ({"every": "5"}, "variable 'every': 5: expected a number and a unit"),
        ({"instance_pool_id": "pool", "spot": "true"}, "a pool has nodes of its own"),
        ({"node_type": "i3.xlarge", "host": "https://adb-1.2.azuredatabricks.net"}, "is no node type of Azure"),
        ({"node_type": "Standard_DS3_v2", "host": "https://dbc-1.cloud.databricks.com"}, "is no node type of AWS"),
        ({"alert_schedule": "0 0 * * * ?"}, "alerts need the variable 'sql_warehouse'"),
        ({"alert_silence": "6h"}, "alerts need the variable 'alert_schedule'"),
        ({"alert_delay": "6h"}, "alerts need the variable 'alert_schedule'"),
        (
            {"alert_silence": "long", "alert_schedule": "0 0 * * * ?", "sql_warehouse": "abc"},
            "variable 'alert_silence'",
        ),
        ({"schema": "sales.orders"}, "variable 'schema': a name has no dot, slash, question mark or blank"),
        ({"catalog": "my catalog"}, "variable 'catalog': a name has no dot, slash, question mark or blank"),
        ({"schema_prefix": "Staging-"}, "variable 'schema_prefix': 'Staging-' is no part of a name"),
        ({"policy_id": "p1"}, "variable 'policy_id': it is for clusters, and tasks run on serverless compute"),
        ({"spot": "true", "compute": "serverless", "mode": "continuous"}, "variable 'spot': it is for clusters"),
        ({"usage_policy_id": "u1", "compute": "cluster"}, "variable 'usage_policy_id': it is for serverless compute"),
        ({"alert_schedule": "hourly", "sql_warehouse": "abc"}, "expected 6 or 7"),
        ({"check_schedule": "hourly", "mode": "continuous"}, "variable 'check_schedule': 'hourly' has 1 field"),
        ({"trigger": "table_update", "mode": "continuous"}, "variable 'trigger': it is for scheduled jobs"),
    ],
)
def test_wrong_values_of_variables_are_refused(variables: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refusal:
        Deployment.from_variables(variables)
    assert message in str(refusal.value)


def test_the_schedule_of_a_continuous_deployment_is_not_checked() -> None:
    assert Deployment(mode="continuous", schedule="whatever").mode == "continuous"


@pytest.mark.parametrize(
    ("settings", "serverless"),
    [
        ({"mode": "scheduled"}, True),
        ({"mode": "continuous"}, False),
        ({"mode": "scheduled", "compute": "cluster"}, False),
        ({"mode": "continuous", "compute": "serverless"}, True),
    ],
)
def test_default_compute_is_serverless_if_scheduled_a_cluster_if_continuous(
    settings: dict[str, Any], serverless: bool
) -> None:
    assert Deployment(**settings).serverless is serverless


def bundle_variables() -> tuple[dict[str, Any], dict[str, Any]]:
    """The bundle of this repository, and the defaults of its variables."""
    bundle = YAML(typ="safe").load(Path(__file__).parents[3] / "databricks.yml")
    return bundle, {name: variable["default"] for name, variable in bundle["variables"].items()}


def test_the_example_target_sets_who_runs_reads_and_manages() -> None:
    bundle, defaults = bundle_variables()
    example = Deployment.from_variables({**defaults, **bundle["targets"]["example"]["variables"]}, "example")
    assert example.run_as is not None
    assert example.run_as.kind == "service principal"
    assert [(one.kind, one.name) for one in example.readers] == [("group", "analysts"), ("user", "ann@example.com")]
    assert [one.name for one in (*example.owners, *example.operators)] == ["data-engineers"] * 2


def test_the_bundle_has_a_variable_for_every_setting_with_its_default() -> None:
    _, defaults = bundle_variables()
    # The CLI says the host to Python itself.
    assert set(defaults) == {field.name for field in fields(Deployment)} - {"target", "host"}
    # Here the package is built from its sources.
    assert defaults.pop("package") == "dist/*.whl"
    assert Deployment.from_variables(defaults) == Deployment()
