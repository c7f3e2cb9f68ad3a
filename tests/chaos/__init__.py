"""The chaos lane: random applications run random histories, and every quiet point is judged.

``make chaos MINUTES=60 SEED=1``, or ``python -m tests.chaos --minutes 60 --seed 1``. A history that failed is replayed
with ``python -m tests.chaos --replay FILE``.

A **history** is data: an application and a list of steps, all drawn from a seed, written as JSON lines
(``history.py``).

* An application has *sources*, tables that steps write (``sources.py``), and *shapes*, resources that read them
  (``shapes/``). A shape writes its manifest, and computes its expected rows with a naive model.
* ``steps/``: a step is one action with its arguments: a write by the API, a statement of SQL, upkeep, a run, a kill.
  Every step fits every state, so any of them can be left out.

How a history is run, from left to right::

    hunt.py                       engine.py                  world.py
    draws it, has the steps  ->   the child, a process  ->   what the steps use: Spark,
    done, and judges each         with one JVM for           the application, the clock
    quiet point                   many histories

* A step that runs the application until quiet, or waits until its continuous run has caught up, ends in a **quiet
  point**. There ``judge.py`` compares the output of each shape (result, folded channel and change feed, state) with
  its naive model of the *current* tables. It reads the tables without the engine (``tables.py``).
* The rows that a record of a stream meets depend on the time at which it comes. So the step that puts a record on its
  topic first reads the table and notes the rows that the record must meet (``steps/records.py``). Web views are judged
  by the step that sends them a request.
* Steps run in the child. A step may kill it; the next step starts a new one. The judge runs in the parent, whose clock
  is never moved.
* A failure is shrunk: steps, shapes and sources are left out while the same failure remains. The shorter history is
  written to ``build/chaos/``.

To add a step, write its function in a module of ``steps/``; to add a shape, its dataclass in a module of ``shapes/``.
Both are registered by a decorator, which says how their arguments or fields are drawn. ``LEFT_OUT`` of
``steps/step.py`` names steps that are left out because they show known defects.
"""
