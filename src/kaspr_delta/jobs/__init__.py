"""From a plan to Databricks jobs: what ``databricks bundle deploy`` puts into a workspace.

Scheduled, an application is one job with a task per agent group and join, in the order of the data; continuous, each of
these is a job of its own. A task runs ``kaspr-delta run --only ...``, the same code as on a laptop.
"""

from kaspr_delta.jobs.deployment import Deployment
from kaspr_delta.jobs.resources import application_resources
from kaspr_delta.jobs.work import Work, work_of

__all__ = ["Deployment", "Work", "application_resources", "work_of"]
