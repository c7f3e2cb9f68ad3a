"""The jobs that were deployed to a Databricks workspace, and their runs, read from the workspace."""

from kaspr_delta.workspace.deployed import DeployedJob, Output, Run, TaskRun, Workspace
from kaspr_delta.workspace.restart import Restart
from kaspr_delta.workspace.schema import DeployedSchema

__all__ = ["DeployedJob", "DeployedSchema", "Output", "Restart", "Run", "TaskRun", "Workspace"]
