"""The workspace of a bundle's target, as databricks.yml names it, and the login for it."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from kaspr_delta.errors import SetupError, first_line

if TYPE_CHECKING:
    from typing_extensions import Self

_BUNDLE = "databricks.yml"


@dataclass(frozen=True, slots=True)
class Login:
    """The host of a target's workspace, and the profile of ``~/.databrickscfg`` for it; empty where none is named."""

    host: str = ""
    profile: str = ""

    @classmethod
    def of_target(cls, folder: Path, target: str) -> Self:
        """As databricks.yml of a folder, with the files that it includes, names them; without that file it is empty.

        Raises SetupError for a file that is no YAML.
        """
        bundle = _content(folder / _BUNDLE)
        included = [path for pattern in bundle.get("include") or () for path in sorted(folder.glob(str(pattern)))]
        parts = [bundle, *map(_content, included)]
        # A target comes before the bundle, wherever it stands.
        named = [*parts, *((part.get("targets") or {}).get(target) or {} for part in parts)]
        found = {name: value for one in named for name, value in (one.get("workspace") or {}).items() if value}
        return cls(str(found.get("host", "")), str(found.get("profile", "")))

    def known_profile(self) -> str | None:
        """The profile that is named, or the only one of the host; None where the environment says another one."""
        if self.profile:
            return self.profile
        if (
            not self.host
            or os.environ.get("DATABRICKS_CONFIG_PROFILE")
            or self.is_at(os.environ.get("DATABRICKS_HOST"))
        ):
            return None
        profiles = configparser.ConfigParser(default_section="", interpolation=None, strict=False)
        profiles.read(Path(os.environ.get("DATABRICKS_CONFIG_FILE") or "~/.databrickscfg").expanduser(), "utf-8")
        there = [name for name in profiles.sections() if self.is_at(profiles[name].get("host"))]
        return there[0] if len(there) == 1 else None

    def is_at(self, host: str | None) -> bool:
        """Whether that is the host of the target."""
        return _name(host or "") == _name(self.host)


def _content(file: Path) -> Mapping[str, Any]:
    try:
        found = YAML(typ="safe").load(file)
    except FileNotFoundError:
        return {}
    except YAMLError as error:
        raise SetupError(f"{file} cannot be read: {first_line(error)}") from error
    return found if isinstance(found, Mapping) else {}


def _name(url: str) -> str:
    """The host's name and port.

    >>> _name("https://DBC-1.cloud.databricks.com/?o=1"), _name("dbc-1.cloud.databricks.com")
    ('dbc-1.cloud.databricks.com', 'dbc-1.cloud.databricks.com')
    """
    return urlsplit(url if "//" in url else f"//{url}").netloc.lower()
