"""``python -m website FOLDER``: write the pages of the site, and what the builder of the site asks for, to a folder."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from website.site import files_of_the_site


def main(folder: Path) -> None:
    """Write the folder anew."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files_of_the_site().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
