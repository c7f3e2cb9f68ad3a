"""Somebody who types what docs/clusters.md says."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.documented import ROOT, Block, blocks, output_matches

PAGE = ROOT / "docs" / "clusters.md"
# Where the tests run, these packages are there.
_INSTALLED = ("pip install ",)
_HOST = "spark://HOST:7077"


@dataclass(slots=True)
class User:
    """A folder, the master of a cluster, and the variables that were exported so far."""

    folder: Path
    master: str
    exported: dict[str, str]

    def follow(self, section: str) -> None:
        """Do the steps of a section of the page, and compare the output."""
        for block in _of_section(section):
            if block.title is not None:
                (self.folder / block.title).parent.mkdir(exist_ok=True)
                (self.folder / block.title).write_text(block.text)
            elif block.language == "console":
                for command, shown in block.commands():
                    self._type(command, shown, block)

    def _type(self, command: str, shown: list[str], block: Block) -> None:
        if command.startswith(_INSTALLED):
            return
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self.exported[name] = value.replace("$PWD", str(self.folder)).replace(_HOST, self.master)
            return
        printed = self.does(command.replace(_HOST, self.master))
        assert not shown or output_matches(shown, printed.splitlines()), f"{block}: {command}\n{printed}"

    def does(self, command: str) -> str:
        """The output of a command, which succeeds."""
        with self.started(command) as process:
            printed, _ = process.communicate()
        assert process.returncode == 0, f"{command}\n{printed}"
        return printed

    def started(self, command: str) -> subprocess.Popen[str]:
        """A command that runs, with its JVM in its own session."""
        return subprocess.Popen(  # noqa: S602  the commands of the page
            f"set -o pipefail; {command}",
            shell=True,
            executable="/bin/bash",
            cwd=self.folder,
            env=self.exported,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


def _of_section(title: str) -> list[Block]:
    """The blocks between a heading and the next one."""
    lines = PAGE.read_text().splitlines()
    begin = lines.index(f"## {title}")
    end = next((n for n, line in enumerate(lines[begin + 1 :], begin + 2) if line.startswith("## ")), len(lines) + 1)
    return [block for block in blocks(PAGE) if begin < block.line < end]
