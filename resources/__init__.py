"""The resources that ``databricks bundle`` deploys, of the application in the variable ``application``."""

from pathlib import Path

from databricks.bundles.core import Bundle, Resources

from kaspr_delta.errors import UsageError
from kaspr_delta.jobs import Deployment, application_resources, give_back_state


def load_resources(bundle: Bundle) -> Resources:
    """The jobs and the App of the application, for the selected target."""
    root = Path.cwd()
    try:
        deployment = Deployment.from_variables(bundle.variables, bundle.target)
        give_back_state(root, deployment.target, deployment.application)
        return application_resources(deployment, root)
    except UsageError as error:
        resources = Resources()
        resources.add_diagnostic_error(str(error))
        return resources
