"""The chaos lane: random applications live through random histories, and every quiet point is judged.

``make chaos MINUTES=60 SEED=1``, or ``python -m tests.chaos --minutes 60 --seed 1``; what it finds is replayed with
``python -m tests.chaos --replay FILE``.

A **history** is data: an application and a list of steps, all drawn from a seed, written as JSON lines.

* ``recipe.py``: an application is *sources*, tables that somebody writes (``sources.py``), and *shapes*, what is made
  of them (``shapes/``). A shape writes its manifest and knows, naively, what must come out.
* ``steps/``: a step is what somebody does: writes by the API, statements of SQL, upkeep, runs, kills. Every step fits
  every state, so any of them can be left out.

How a history is lived, from the left to the right::

    hunt.py        living.py              engine.py  ->  child.py          world.py
    draws it  ->   one step after the ->  the pipe       a process with    does the steps: Spark, the
                   other; judge after     to the child   one JVM for       application, the clock
                   each quiet point                      many histories

* A step that runs the application until quiet ends in a **quiet point**. There ``judge.py`` compares what each shape
  shows (results, channels and feeds folded, states) with what it makes of the tables *as they are now*. It reads the
  tables without the engine (``tables.py``).
* What a record of a stream meets depends on when it comes. So the step that puts it on its topic looks at the table
  first and notes what it must meet (``steps/records.py``); web views are judged by the step that asks them.
* Steps are done in the child, which a step may kill for good; the next step finds a new one. The judge lives in the
  parent, whose clock nobody moves.
* A failure is shrunk (``shrink.py``): steps, shapes and sources are left out while the same failure remains. What
  is left is written to ``build/chaos/``.

To add a step, write its dataclass in a module of ``steps/``; to add a shape, its dataclass in a module of ``shapes/``.
Both are registered by their class. ``known.py`` names steps that are left out because what they show is known.
"""
