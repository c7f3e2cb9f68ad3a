"""Files of the repository as pages: notebooks, and linked files that are not Markdown."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

from website.pages import ROOT, with_links_of_the_site

_LANGUAGES = {".py": "python", ".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}


def source_page(file: str) -> str:
    """A page with the text of a file."""
    text = (ROOT / file).read_text()
    language = _LANGUAGES.get(PurePosixPath(file).suffix, "text")
    fence = "`" * 4
    return f'---\nsearch:\n  exclude: true\n---\n\n# {file}\n\n{fence}{{ .{language} title="{file}" }}\n{text}{fence}\n'


def notebook_page(file: str) -> str:
    """A page with the text and the code of a notebook, without outputs."""
    parts = []
    for cell in json.loads((ROOT / file).read_text())["cells"]:
        text = "".join(cell["source"])
        is_text = cell["cell_type"] == "markdown"
        parts.append(with_links_of_the_site(text, file) if is_text else f"```python\n{text}\n```")
    return "\n\n".join(parts) + f"\n\n*This is `{file}`; `make notebooks` runs it.*\n"
