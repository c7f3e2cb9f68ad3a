"""The files of the repository that are pages of the site, and their links within the site."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
DOCS = "docs"

# Pages whose Markdown is outside docs/.
_ELSEWHERE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "tests/README.md": "tests.md",
    "tests/scenarios.md": "scenarios.md",
}
_LINK = re.compile(r"(?<=\]\()(?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?(?=\))")
_CODE = re.compile(r"`[^`]+`")
_FENCE = re.compile(r"^ *(```|~~~)")
_ELSEWHERE_ON_THE_WEB = ("http://", "https://", "mailto:")
_LANGUAGES = {".py": "python", ".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}


def pages() -> dict[str, str]:
    """The pages that stand outside docs/: file of the repository -> page of the site."""
    examples = {
        readme.relative_to(ROOT).as_posix(): f"examples/{readme.parent.name}.md"
        for readme in sorted(ROOT.glob("bundles/*/README.md"))
    }
    return {**_ELSEWHERE, **examples}


def page_of(file: str) -> str:
    """The page that shows a file of the repository: its own, or one with its text.

    >>> page_of("README.md"), page_of("docs/joins.md"), page_of("databricks.yml")
    ('index.md', 'joins.md', 'source/databricks.yml.md')
    """
    if file in (known := pages()):
        return known[file]
    if file.startswith(f"{DOCS}/"):
        return file.removeprefix(f"{DOCS}/")
    if file.startswith("notebooks/"):
        return f"{file}.md"
    return f"source/{file}.md"


def linked_files(file: str) -> Iterator[str]:
    """The files of the repository to which a Markdown file has links."""
    for line, is_text in _lines((ROOT / file).read_text()):
        for link in _LINK.finditer(line) if is_text else ():
            if (target := _resolved(file, link["target"])) is not None:
                yield target


def with_links_of_the_site(text: str, file: str) -> str:
    """Markdown of a file with links to pages of the site. Links to missing files stay, and the build reports them."""

    def moved(link: re.Match[str]) -> str:
        target = _resolved(file, link["target"])
        if target is None or not (ROOT / target).is_file():
            return link[0]
        here = posixpath.dirname(page_of(file))
        return posixpath.relpath(page_of(target), here or ".") + (link["anchor"] or "")

    return "".join(_unescaped(_LINK.sub(moved, line)) if is_text else line for line, is_text in _lines(text))


def source_page(file: str) -> str:
    """A page with the text of a file that is not Markdown."""
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


def _unescaped(line: str) -> str:
    """A row of a table without escapes of bars in code: GitHub needs the backslash, the site would show it."""
    return _CODE.sub(lambda code: code[0].replace("\\|", "|"), line) if line.startswith("|") else line


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """The lines of Markdown, each with whether it is text: neither in a fenced block nor the edge of one."""
    fenced = False
    for line in text.splitlines(keepends=True):
        edge = _FENCE.match(line) is not None
        yield line, not (fenced or edge)
        fenced ^= edge


def _resolved(file: str, target: str) -> str | None:
    """The file of the repository that a link in another file names; None for a link to the web."""
    if target.startswith(_ELSEWHERE_ON_THE_WEB):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(file), target))
