"""``python -m website.references``: write the references of manifests and of Python to ``docs/reference``."""

from __future__ import annotations

from functools import cache

from website.manifests import KINDS, kind_page
from website.pages import DOCS, ROOT
from website.python_api import python_page

FOLDER = f"{DOCS}/reference"
_NOTE = "<!-- Written by `python -m website.references` from the code. -->\n\n"


@cache
def references() -> dict[str, str]:
    """The texts of the pages, by their place in the repository."""
    pages = {"python.md": python_page(), **{f"{kind}.md": kind_page(kind) for kind in KINDS}}
    return {f"{FOLDER}/{name}": f"{_NOTE}{text.strip()}\n" for name, text in pages.items()}


def main() -> None:
    """Write the pages."""
    (ROOT / FOLDER).mkdir(exist_ok=True)
    for file, text in references().items():
        (ROOT / file).write_text(text)


if __name__ == "__main__":
    main()
