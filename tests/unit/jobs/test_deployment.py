from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from kaspr_delta.errors import UsageError
from kaspr_delta.jobs import Deployment


def test_variables_of_the_bundle_become_settings() -> None:
    deployment = Deployment.from_variables({"application": "shop", "workers": "3", "something_else": "x"})
    assert (deployment.folder, deployment.workers, deployment.mode) == ("bundles/shop", 3, "scheduled")


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"mode": "continous"}, "did you mean 'continuous'?"),
        ({"compute": "gpu"}, "there are: cluster, default, serverless"),
        ({"catalog": " "}, "variable 'catalog' is empty"),
        ({"workers": "many"}, "variable 'workers' is 'many', expected a number"),
        ({"workers": "-1"}, "variable 'workers' is '-1', expected a number"),
        ({"schedule": "hourly"}, "variable 'schedule': 'hourly' has 1 field, expected 6 or 7"),
        ({"timezone": "Mars"}, "variable 'timezone': 'Mars' is no time zone"),
        ({"retries": "-1"}, "variable 'retries' is '-1', expected a number"),
        ({"timeout_minutes": "0"}, "variable 'timeout_minutes' is 0, expected 1 or more"),
        ({"backlog_bytes": "1G"}, "variable 'backlog_bytes' is '1G', expected a number"),
        ({"read_as_visitor": "yes"}, "there are: false, true"),
        ({"package": "shop==1.0"}, "variable 'package' is 'shop==1.0', expected kaspr-delta==VERSION or"),
        ({"notify": "ann@example.com, bob"}, "variable 'notify': 'bob' is no mail address"),
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


def test_the_bundle_has_a_variable_for_every_setting_with_its_default() -> None:
    bundle = YAML(typ="safe").load(Path(__file__).parents[3] / "databricks.yml")
    defaults = {name: variable["default"] for name, variable in bundle["variables"].items()}
    assert set(defaults) == {field.name for field in fields(Deployment)} - {"target"}
    # Here the package is built from its sources.
    assert defaults.pop("package") == "dist/*.whl"
    assert Deployment.from_variables(defaults) == Deployment()
