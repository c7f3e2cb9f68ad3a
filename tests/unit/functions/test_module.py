"""A snippet is a module, so that what Python's libraries do with classes and functions works in it."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kaspr_delta.functions import module
from kaspr_delta.functions.snippet import Snippet, in_empty_scope

CLASSES = """\
from __future__ import annotations
import dataclasses, enum, pickle, typing

class Size(enum.Enum):
    SMALL = 1

@dataclasses.dataclass
class Order:
    size: Size
    above: Order | None = None
    count: typing.ClassVar[int] = 3

class Named(typing.NamedTuple):
    size: Size

def fields(value): return dataclasses.asdict(Order(Size.SMALL))
def hints(value): return typing.get_type_hints(Order)
def dumped(value): return pickle.dumps([Order(Size.SMALL), Named(Size.SMALL), fields])
def loaded(value):
    order, named, function = pickle.loads(value)
    return type(order) is Order and order.size is Size.SMALL and isinstance(named, Named) and function is fields
def own(value): return __name__, Order.__module__
"""


def called(entrypoint: str, value: Any = None) -> Any:
    return Snippet(CLASSES, entrypoint).function({"context": {}})(value)


def test_annotations_are_resolved_in_the_names_of_the_snippet() -> None:
    size = called("fields")["size"]
    assert list(called("fields")) == ["size", "above"]
    assert list(called("hints")) == ["size", "above", "count"]
    assert str(size) == "Size.SMALL"


def test_each_text_is_a_module_with_a_name_of_its_own() -> None:
    name, of_class = called("own")
    assert name == of_class == sys.modules[name].__name__
    assert Snippet("def f(v): return __name__", "f").function({})(None) not in {name, "builtins"}


def test_an_instance_is_unpickled_where_the_same_text_is_executed_again() -> None:
    dumped = called("dumped")
    assert called("loaded", dumped)
    dumped_later = in_empty_scope(Snippet(CLASSES, "dumped", "other.yaml", 7))(None)
    assert in_empty_scope(Snippet(CLASSES, "loaded", "other.yaml", 7))(dumped_later)


def test_an_instance_is_unpickled_in_another_process_before_its_text_is_executed() -> None:
    reader = (
        "import pickle, sys\n"
        "from kaspr_delta.functions.snippet import Snippet\n"
        "source, dumped = pickle.loads(sys.stdin.buffer.read())\n"
        "Snippet(source, 'own').announce()\n"
        "print(pickle.loads(dumped)[0])\n"
    )
    given = pickle.dumps((CLASSES, called("dumped")))
    program = [sys.executable, "-c", reader]
    shown = subprocess.run(program, input=given, stdout=subprocess.PIPE, check=True).stdout  # noqa: S603
    assert shown.decode().strip() == "Order(size=<Size.SMALL: 1>, above=None)"


def test_threads_that_execute_one_text_do_not_meet() -> None:
    begin = threading.Barrier(4, timeout=10)

    def run() -> None:
        for _ in range(50):
            scope = Snippet(CLASSES, "dumped").run({})
            begin.wait()
            assert scope["loaded"](scope["dumped"](None))

    with ThreadPoolExecutor(4) as pool:
        for thread in [pool.submit(run) for _ in range(4)]:
            thread.result()


def test_modules_of_edited_texts_are_forgotten() -> None:
    for number in range(module._MOST_MODULES + 10):
        Snippet(f"def f(v): return {number}", "f").announce()
    assert sum(name.startswith("kaspr_snippet_") for name in sys.modules) <= module._MOST_MODULES
    assert called("loaded", called("dumped"))
