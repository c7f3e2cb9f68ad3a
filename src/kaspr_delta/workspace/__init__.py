"""What was deployed to a Databricks workspace, as that tells it."""

from kaspr_delta.workspace.deployed import DeployedJob, Output, Run, TaskRun, Workspace

__all__ = ["DeployedJob", "Output", "Run", "TaskRun", "Workspace"]
