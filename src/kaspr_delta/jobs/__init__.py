"""Turns a plan into the Databricks jobs that ``databricks bundle deploy`` puts into a workspace.

An application is one job of one task, or of a task per unit of work, such as an agent group or a join, in the order of
the data. In a continuous application each of its units is a job of its own. A task runs ``kaspr-delta run``, the same
code as on a laptop.
"""

from kaspr_delta.jobs.deployment import Deployment
from kaspr_delta.jobs.package import Package
from kaspr_delta.jobs.resources import application_resources, load_resources, manifests_of
from kaspr_delta.jobs.storage import Storage
from kaspr_delta.jobs.work import Work, work_of

__all__ = [
    "Deployment",
    "Package",
    "Storage",
    "Work",
    "application_resources",
    "load_resources",
    "manifests_of",
    "work_of",
]
