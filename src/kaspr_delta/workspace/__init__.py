"""The jobs that were deployed to a Databricks workspace, and their runs, read from the workspace."""

from kaspr_delta.workspace.deployed import DeployedJob, Output, Run, TaskRun, Workspace

__all__ = ["DeployedJob", "Output", "Run", "TaskRun", "Workspace"]
