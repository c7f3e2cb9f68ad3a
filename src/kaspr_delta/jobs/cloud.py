"""The clouds that Databricks runs on, with the names of their node types."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cloud:
    """A cloud: the ends of its workspaces' host names, a node type for small work, and a pattern of all of them.

    ``spot`` is the availability, in the ``attributes`` of a cluster, of nodes that the cloud may take away.
    """

    name: str
    hosts: tuple[str, ...]
    node_type: str
    node_types: str
    attributes: str
    spot: str

    @classmethod
    def at(cls, host: str) -> Cloud:
        """The cloud of the workspace at a URL. A URL that no cloud is known for counts as one of AWS.

        >>> Cloud.at("https://adb-1.2.azuredatabricks.net").name, Cloud.at("https://dbc-1.cloud.databricks.com/").name
        ('Azure', 'AWS')
        """
        return next((cloud for cloud in (_AZURE, _GOOGLE) if cloud.is_at(host)), _AWS)

    def is_at(self, host: str) -> bool:
        """Whether the workspace at a URL is known to be in this cloud."""
        return _host_name(host).endswith(self.hosts)

    def node_problem(self, node_type: str) -> str | None:
        """The problem with the name of a node type; None if it is one of this cloud's kind.

        >>> Cloud.at("https://1.gcp.databricks.com").node_problem("i3.xlarge")
        "'i3.xlarge' is no node type of Google Cloud, whose types are named like n1-standard-4"
        """
        if re.fullmatch(self.node_types, node_type):
            return None
        return f"{node_type!r} is no node type of {self.name}, whose types are named like {self.node_type}"


def _host_name(url: str) -> str:
    return re.sub(r"^https?://|[:/].*$", "", url.strip().lower())


_AWS = Cloud(
    "AWS",
    (".cloud.databricks.com",),
    "i3.xlarge",
    r"[a-z0-9-]+\.[a-z0-9-]+",
    "aws_attributes",
    "SPOT_WITH_FALLBACK",
)
_AZURE = Cloud(
    "Azure",
    (".azuredatabricks.net", ".databricks.azure.cn", ".databricks.azure.us"),
    "Standard_DS3_v2",
    r"Standard_\w+",
    "azure_attributes",
    "SPOT_WITH_FALLBACK_AZURE",
)
_GOOGLE = Cloud(
    "Google Cloud",
    (".gcp.databricks.com",),
    "n1-standard-4",
    r"[a-z0-9]+-[a-z0-9]+-\d+(-\w+)*",
    "gcp_attributes",
    "PREEMPTIBLE_WITH_FALLBACK_GCP",
)
