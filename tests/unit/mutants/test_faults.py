"""The seeded faults fit the source and the tests, whoever changed these."""

from __future__ import annotations

import ast
from collections import Counter

from tests.mutants.faults import ROOT, load

FAULTS = load()


def test_the_text_of_each_fault_occurs_once_and_its_replacement_is_python() -> None:
    sources = {fault.file: fault.source(ROOT).read_text() for fault in FAULTS}
    parsed = {file: ast.dump(ast.parse(source)) for file, source in sources.items()}
    for fault in FAULTS:
        source = sources[fault.file]
        wrong = fault.applied(source)
        assert wrong is not None, f"{fault.name}: its text occurs {source.count(fault.text)} times in {fault.file}"
        assert ast.dump(ast.parse(wrong)) != parsed[fault.file], fault.name


def test_each_fault_has_tests_that_exist_in_the_folders_of_its_kind() -> None:
    missing = [
        (fault.name, test)
        for fault in FAULTS
        for test in (*fault.tests, *fault.java, *fault.longer)
        if not (ROOT / "tests" / test.split("::")[0]).is_file()
    ]
    assert missing == []
    assert [fault.name for fault in FAULTS if not (fault.tests or fault.java or fault.longer)] == []
    assert {test.split("/")[0] for fault in FAULTS for test in fault.tests} <= {"unit", "acceptance", "properties"}
    java = {test.split("/")[0] for fault in FAULTS for test in (*fault.java, *fault.longer)}
    assert java <= {"spark", "properties"}


def test_names_are_unique_and_every_room_has_faults() -> None:
    assert [name for name, count in Counter(fault.name for fault in FAULTS).items() if count > 1] == []
    rooms = {folder.name for folder in (ROOT / "src" / "kaspr_delta").iterdir() if (folder / "__init__.py").exists()}
    assert rooms - {fault.room for fault in FAULTS} <= {"workspace"}
    assert len(FAULTS) >= 60
