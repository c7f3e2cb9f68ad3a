"""``python -m website FOLDER``: write the pages of the site, and the settings of its builder, to a folder.

``python -m website FOLDER --built``: change the site that was built in ``FOLDER/site``, so that it needs no network.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from website.scripts import FRAME_WORKER, MERMAID, fetched, with_own_script
from website.site import files_of_the_site


def write(folder: Path) -> None:
    """Write the folder anew. Fetched scripts are kept in the folder ``scripts`` beside it."""
    scripts = {one.file: fetched(one, folder.parent / "scripts") for one in (MERMAID, FRAME_WORKER)}
    there = {name: script for name, script in scripts.items() if script is not None}
    if len(there) < len(scripts):
        print("npm cannot fetch scripts for pictures and for searching the site on a disk: it goes without")  # noqa: T201
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files_of_the_site(there).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


if __name__ == "__main__":
    if sys.argv[2:] == ["--built"]:
        with_own_script(Path(sys.argv[1]) / "site", FRAME_WORKER)
    else:
        write(Path(sys.argv[1]))
