"""No manifest keeps a command busy for long, or fills memory: each limit is a finding with its location."""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import pytest

from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.spec.limits import DEEPEST_VALUE, LONGEST_FILE, LONGEST_TEXT, MOST_FILES
from kaspr_delta.spec.loader import load_path, load_text

HEAD = "apiVersion: kaspr.io/v1alpha1\nkind: {kind}\nmetadata: {{name: a, labels: {{kaspr.io/app: a}}}}\nspec:\n"
AGENT = HEAD.format(kind="KasprAgent") + "  input: {topic: {name: t}}\n  processors:\n    operations:\n"
TABLE = HEAD.format(kind="KasprTable")
SCHEMA = f"{TABLE}  key: a\n  schema: "
VIEW = HEAD.format(kind="KasprWebView")
TASK = HEAD.format(kind="KasprTask") + "  processors: {operations: [{name: x, map: {python: 'def f(): 1'}}]}\n"
# Much more than any of these cases needs, so that a busy machine fails none of them.
SECONDS = 5
TOO_MUCH = "up to here there are more than 30,000 values"


def python(text: str) -> str:
    return f"{AGENT}    - name: x\n      map:\n        python: '{text}'\n"


def bomb(first: str, step: str) -> str:
    """Nine levels of nine aliases each."""
    levels = (step.format(n=n, aliases=", ".join([f"*a{n - 1}"] * 9)) for n in range(1, 10))
    return f"a0: &a0 {first}\n" + "".join(levels)


def nested(depth: int, before: str, behind: str = "", innermost: str = "x") -> str:
    return before * depth + innermost + behind * depth


def findings(text: str) -> list[str]:
    started = time.process_time()
    _, found = build_plans(load_text(text, "m.yaml"))
    assert time.process_time() - started < SECONDS
    return [str(finding) for finding in found]


@pytest.mark.parametrize(
    ("text", "location", "message"),
    [
        (bomb("[x]", "a{n}: &a{n} [{aliases}]\n"), "", TOO_MUCH),
        (bomb("{x: 1}", "a{n}: &a{n} {{<<: [{aliases}]}}\n"), "", TOO_MUCH),
        (bomb("{x: 1}", "a{n}: &a{n} {{x: [{aliases}], y: [{aliases}]}}\n"), "", TOO_MUCH),
        ("a: &a {b: &b [*b, *a]}\n", "1:15", "'*b' is inside the value that it refers to"),
        ("a: &a {<<: *a}\n", "1:12", "'*a' is inside the value that it refers to"),
        ("a: &a [1]\nb: &a [*a]\n", "2:8", "'*a' is inside the value that it refers to"),
        ("[" * 100_000, "1:101", f"this value is nested in more than {DEEPEST_VALUE} others"),
        ("{a: " * 100_000, "1:398", f"this value is nested in more than {DEEPEST_VALUE} others"),
        ("- " * 100_000, "1:201", f"this value is nested in more than {DEEPEST_VALUE} others"),
        ("".join(" " * level + "a:\n" for level in range(1_000)), "100:100", "this value is nested in more than"),
        ("[" + "a," * 400_000 + "]", "1:", TOO_MUCH),
        ("".join(f"k{n}: a\n" for n in range(60_000)), "", TOO_MUCH),
        ("---\na\n" * 100_000, "2:1", "a manifest is a mapping"),
        ("a: " + "x" * (LONGEST_TEXT + 1), "1:4", "this value has 50,001 characters, the most is 50,000"),
        (TABLE + "  partitions: " + "9" * 5_000, "5:15", "999… is no number of 64 bits (put it in quotes"),
        (TABLE + "  partitions: 0x" + "f" * 5_000, "5:15", "fff… is no number of 64 bits"),
        (TABLE + "  partitions: !!int abc", "5:15", "abc is no number of 64 bits"),
        (TABLE + "  partitions: -_", "5:15", "-_ is no number of 64 bits"),
        (SCHEMA + "a " + nested(5_000, "ARRAY<", ">", "INT"), "6:11", "a type is nested in more than"),
        (SCHEMA + "'a " + nested(4_000, "STRUCT<a:", ">", "INT") + "'", "6:11", "a type is nested in"),
        (SCHEMA + "a DECIMAL(" + "9" * 5_000 + ")", "6:11", "DECIMAL needs its size"),
        (TASK + f"  schedule: {{interval: {'1' * 5_000}s}}\n", "6:24", "has more than 9 digits"),
        (TASK + f"  schedule: {{cron: '*/{'1' * 5_000} * * * *'}}\n", "6:20", "is not understood"),
        (TASK + f"  schedule: {{cron: '{'1' * 5_000} * * * *'}}\n", "6:20", "is not understood"),
        (python("def f(x): return " + "(" * 40_000), "10:17", "too many nested parentheses"),
        (python("def f(x): return " + nested(1_000, "not ")), "10:17", "is nested in more than 200 others"),
        (python("def f(x): return " + nested(20_000, "-")), "10:17", "is nested in more than 200 others"),
        (python("def f(x): return x" + ".y" * 20_000), "10:17", "is nested in more than 200 others"),
        (python("def f(x): return x" + " + 1" * 300), "10:17", "is nested in more than 200 others"),
        (AGENT.replace("name: t", f"pattern: '{'(' * 490}{')' * 490}'"), "5:28", "its parentheses are nested"),
        (AGENT.replace("name: t", "pattern: 'a{99999999999}'"), "5:28", "the repetition number is too large"),
        (
            VIEW + "  request: {method: GET, path: '/{id:a{99999999999}}'}\n",
            "5:32",
            "the repetition number is too large",
        ),
    ],
    ids=lambda value: value[-30:].strip(),
)
def test_what_takes_too_much_is_a_finding_where_it_begins(text: str, location: str, message: str) -> None:
    found = [line for line in findings(text) if line.startswith(f"m.yaml:{location}") and message in line]
    assert found
    assert all(len(line) < 2_500 for line in found)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)*b", "a*a*a*a*a*a*b", "(?!(a|a)*b).*", "(?:a?){99}a{99}"])
def test_no_pattern_takes_long_to_match(pattern: str) -> None:
    topics = f"  topics: {{{'a' * 99}: {{files: {{path: /x, format: json}}}}}}\n"
    app = "apiVersion: kaspr.io/v1alpha1\nkind: KasprApp\nmetadata: {name: a}\nspec:\n"
    findings(f"{app}{topics}---\n" + AGENT.replace("name: t", f"pattern: '{pattern}'"))


def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    huge = tmp_path / "huge.yaml"
    with huge.open("wb") as file:
        file.truncate(2**40)
    tracemalloc.start()
    try:
        (finding,) = load_path(tmp_path).findings
        assert tracemalloc.get_traced_memory()[1] < 3 * LONGEST_FILE
    finally:
        tracemalloc.stop()
    assert str(finding).startswith(f"{huge}:1:1: error: this file has more than 1,000,000 bytes (")


def test_a_folder_with_too_many_files_is_one_finding(tmp_path: Path) -> None:
    for number in range(MOST_FILES + 1):
        (tmp_path / f"{number}.yaml").touch()
    (finding,) = load_path(tmp_path).findings
    assert finding.message == "this folder holds more than 1,000 files of YAML"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names exist on POSIX only")
def test_a_pipe_or_device_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    assert {finding.message for finding in load_path(tmp_path).findings} == {"this is not a file"}
    assert load_path(tmp_path / "pipe.yaml").findings[0].message == "this is not a file"


def test_the_files_of_a_folder_share_one_limit(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.yaml").write_text("".join(f"a{n}: {'x' * LONGEST_TEXT}\n" for n in range(12)))
    last = load_path(tmp_path).findings[-1]
    assert (Path(last.location.file).name, TOO_MUCH in last.message) == ("2.yaml", True)


def joins(sides: Iterable[tuple[int, int, int]]) -> str:
    """Joins, by the numbers of each one and of its sides."""
    head = HEAD.replace("name: a,", "name: j{n},")
    return "---\n".join(
        head.format(kind="KasprJoin", n=n) + f"  leftTable: j{left}\n  rightTable: j{right}\n  on: key\n"
        for n, left, right in sides
    )


RING = joins((n, (n - 1) % 60, (n - 2) % 60) for n in range(60))
DOUBLED = TABLE.replace("name: a", "name: j0") + "---\n" + joins((n, n - 1, n - 1) for n in range(1, 31))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RING, "these are defined by one another"),
        (DOUBLED, "has rows of 128 tables, for it joins results; the most is 100"),
    ],
    ids=["a ring in which each joins two others", "each joins the one before with itself"],
)
def test_joins_of_joins_take_no_time_that_grows_with_their_ways_to_one_another(text: str, message: str) -> None:
    (found,) = (one for one in findings(text) if "error" in one)
    assert message in found
