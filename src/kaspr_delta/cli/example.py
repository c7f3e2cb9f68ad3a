"""The example application that comes with this package: its folder and its data."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from kaspr_delta.errors import SetupError


def bundle_folder(name: str) -> Path:
    """The folder of an application that comes with this package. Raises SetupError when it is not there."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "bundles" / name, package.parents[1] / "bundles" / name):
        if folder.is_dir():
            return folder
    raise SetupError(f"the example application {name!r} is not part of this installation: clone the repository for it")


def data_generator(bundle: Path) -> Any:
    """The application's own data generator, a module beside its manifests. Raises SetupError without one."""
    spec = importlib.util.spec_from_file_location("order_system_data", bundle / "generate.py")
    if spec is None or spec.loader is None:
        raise SetupError(f"{bundle} has no generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
