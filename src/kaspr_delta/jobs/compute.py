"""Where tasks run: on serverless compute with an environment, or on a job cluster with libraries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from databricks.bundles.core import VariableOrList
from databricks.bundles.jobs import (
    ClusterSpec,
    Environment,
    JobCluster,
    JobEnvironment,
    Library,
    PythonPyPiLibrary,
    PythonWheelTask,
    Task,
)

from kaspr_delta.jobs.deployment import Deployment

PACKAGE = "kaspr_delta"
ENTRY_POINT = "kaspr-delta-task"
ENVIRONMENT_KEY = "kaspr"
CLUSTER_KEY = "kaspr"


@dataclass(frozen=True, slots=True)
class Compute:
    """The compute of one job: ``packages`` are installed beside this one, ``tags`` are put on a cluster."""

    deployment: Deployment
    packages: tuple[str, ...]
    tags: dict[str, str]

    def task(self, key: str, description: str, parameters: list[str]) -> Task:
        """A task that runs the command ``kaspr-delta`` with these parameters, by its entry point for tasks."""
        wheel = PythonWheelTask(package_name=PACKAGE, entry_point=ENTRY_POINT, parameters=parameters)  # type: ignore[arg-type]  # lists are invariant
        task = Task(task_key=key, description=description, python_wheel_task=wheel)
        if self.deployment.serverless:
            task.environment_key = ENVIRONMENT_KEY
            # Otherwise serverless compute adds retries of its own to ours.
            task.disable_auto_optimization = True
            return task
        task.job_cluster_key = CLUSTER_KEY
        pypi = (Library(pypi=PythonPyPiLibrary(package=package)) for package in self.packages)
        task.libraries = [self.deployment.package.library, *pypi]
        return task

    def environments(self) -> VariableOrList[JobEnvironment]:
        """The environment that tasks name; none on a cluster."""
        if not self.deployment.serverless:
            return []
        base = self.deployment.base_environment
        spec = Environment(
            environment_version=None if base else self.deployment.environment_version,
            base_environment=base or None,
            dependencies=[self.deployment.package.text, *self.packages],
        )
        return [JobEnvironment(environment_key=ENVIRONMENT_KEY, spec=spec)]

    def clusters(self, *keys: str) -> VariableOrList[JobCluster]:
        """The cluster that tasks name, and one of each other key; none on serverless compute."""
        if self.deployment.serverless:
            return []
        wanted = self.deployment
        spec: dict[str, Any] = {
            "spark_version": wanted.spark_version,
            # A fixed size: streams do not shrink a cluster in time, they only grow it.
            "num_workers": wanted.workers,
            "data_security_mode": "SINGLE_USER",
            "custom_tags": dict(self.tags),
        }
        if wanted.instance_pool_id:
            spec["instance_pool_id"] = wanted.instance_pool_id
        elif wanted.node_type or not wanted.policy_id:  # a policy may fix the nodes
            spec["node_type_id"] = wanted.node_type or wanted.cloud.node_type
        if wanted.policy_id:
            spec |= {"policy_id": wanted.policy_id, "apply_policy_default_values": True}
        if wanted.spot:
            # The driver of a cluster with workers is no such node: without it the others are of no use.
            spec[wanted.cloud.attributes] = {
                "availability": wanted.cloud.spot,
                "first_on_demand": 1 if wanted.workers else 0,
            }
        if wanted.workers == 0:
            spec["spark_conf"] = {"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"}
            spec["custom_tags"]["ResourceClass"] = "SingleNode"
        cluster = ClusterSpec.from_dict(spec)  # type: ignore[arg-type]  # it is no TypedDict
        return [JobCluster(job_cluster_key=key, new_cluster=cluster) for key in (CLUSTER_KEY, *keys)]
