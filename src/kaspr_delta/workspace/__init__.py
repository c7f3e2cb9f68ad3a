"""The jobs that were deployed to a Databricks workspace, and their runs."""

from kaspr_delta.workspace.deployed import DeployedJob, Output, Run, TaskRun, Workspace
from kaspr_delta.workspace.operations import Operations
from kaspr_delta.workspace.restart import Restart
from kaspr_delta.workspace.schema import DeployedSchema

__all__ = ["DeployedJob", "DeployedSchema", "Operations", "Output", "Restart", "Run", "TaskRun", "Workspace"]
