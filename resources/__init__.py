"""The resources that ``databricks bundle`` deploys, of the application in the variable ``application``."""

from pathlib import Path

from databricks.bundles.core import Bundle, Resources

from kaspr_delta.errors import UsageError
from kaspr_delta.jobs import Deployment, application_resources


def load_resources(bundle: Bundle) -> Resources:
    """The schema, the volume and the jobs of the application, for the selected target."""
    try:
        return application_resources(Deployment.from_variables(bundle.variables, bundle.target), Path.cwd())
    except UsageError as error:
        resources = Resources()
        resources.add_diagnostic_error(str(error))
        return resources
