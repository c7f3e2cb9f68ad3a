"""The errors that stopped resources, each as a sentence."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kaspr_delta.disk_errors import disk_problem, is_of_whole_disk
from kaspr_delta.errors import KasprError, RebuildNeededError, ResourceFailedError, SetupError, may_pass
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.runtime.run_events import Failed, Listener, ignore_event
from kaspr_delta.storage.gone import what_is_gone
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from kaspr_delta.engine.batch.stream_run import ResourceRun

# The frames of a traceback that are kept.
_FRAMES = 12
# The beginning of Spark's message if another thread failed.
_AWAITED = "Exception thrown in awaitResult"


@dataclass
class Failures:
    """The errors of resources that stopped. The other resources go on; ``tell`` raises all errors at the end."""

    runs: Mapping[ResourceRef, ResourceRun]
    listener: Listener = ignore_event
    # Returns the resources that have to wait, with the reasons, because tables of others have changed.
    waiting: Callable[[], Mapping[ResourceRef, str]] = dict
    errors: dict[ResourceRef, Exception] = field(default_factory=dict)
    # Where each error was raised, as lines of a traceback.
    _raised_at: dict[ResourceRef, str] = field(default_factory=dict, init=False)

    def __contains__(self, ref: ResourceRef) -> bool:
        return ref in self.errors

    def note(self, ref: ResourceRef, error: Exception | None) -> None:
        """Note that a resource failed, if there is an error, and tell the listener."""
        if error is not None:
            run = self.runs.get(ref)
            raised = error if run is None else run.runner.failure or error
            account = self._account_of(ref, error)
            # First: other threads look at the errors, and then for the place of each.
            self._raised_at[ref] = "".join(traceback.format_tb(raised.__traceback__)[-_FRAMES:])
            self.errors[ref] = account
            self.listener(Failed(ref, self.errors[ref]))

    @contextmanager
    def noting(self, ref: ResourceRef) -> Iterator[None]:
        """Note that a resource failed if the block raises: the others go on, and all failures are raised at the end."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            self.note(ref, error)

    @property
    def rebuilds(self) -> dict[ResourceRef, str]:
        """The resources that need a rebuild, with the reasons."""
        return {ref: str(error) for ref, error in self.errors.copy().items() if isinstance(error, RebuildNeededError)}

    @property
    def accounts(self) -> dict[ResourceRef, str]:
        """The other failures: the sentence of each, and below it the places in the code at which it was raised."""
        return {
            ref: f"{short_text(error)}\n{self._raised_at[ref]}".strip()
            for ref, error in self.errors.copy().items()
            if not isinstance(error, RebuildNeededError)
        }

    def tell(self) -> None:
        """Raise ResourceFailedError if any resource failed. Resources with the same error share a sentence."""
        refs_by_message: dict[str, list[str]] = {}
        for ref, error in self.errors.items():
            refs_by_message.setdefault(short_text(error), []).append(str(ref))
        if refs_by_message:
            raise ResourceFailedError(
                "\n".join(f"{', '.join(refs)} failed: {text}" for text, refs in refs_by_message.items()),
                may_pass=any(map(may_pass, self.errors.values())),
            )

    def _account_of(self, ref: ResourceRef, error: Exception) -> Exception:
        run = self.runs.get(ref)
        if run is None:  # it could not be made
            return what_is_gone(error) or error
        # Before ``account_of``, which takes a missing file for changes that were vacuumed.
        problem = _disk_problem(run.runner.delta, run.runner.failure or error)
        if problem is not None:
            return problem
        reason = self.waiting().get(ref)
        if reason is not None:
            return SetupError(reason)
        return what_is_gone(run.runner.failure or error) or run.recovery.account_of(error)


@contextmanager
def made_to_wait(waiting: MutableMapping[ResourceRef, str], ref: ResourceRef) -> Iterator[None]:
    """Let a resource wait if the block fails, with the error as the reason. A full or read-only disk is an error."""
    try:
        yield
    except Exception as error:  # one resource closes no application
        if is_of_whole_disk(error):
            raise
        waiting[ref] = disk_problem(error) or short_text(what_is_gone(error) or error)


@contextmanager
def disk_errors_explained(delta: Tables) -> Iterator[None]:
    """Raise SetupError, which says what to do, for a disk error outside the batches of a resource."""
    try:
        yield
    except Exception as error:
        problem = None if isinstance(error, KasprError) else _disk_problem(delta, error)
        if problem is None:
            raise
        raise problem from error


def _disk_problem(delta: Tables, error: BaseException) -> SetupError | None:
    problem = disk_problem(error, delta.namespace.disk)
    return None if problem is None else SetupError(problem)


def short_text(error: BaseException) -> str:
    """The text of an error; of a Spark error only its message, without the JVM's stack and the plan."""
    text = str(error)
    if isinstance(error, KasprError):
        return text
    if _AWAITED in text:  # its beginning says only that another thread failed
        text = text.rpartition("Caused by: ")[2]
    for noise in ("\n\tat ", "JVM stacktrace:", "\n=== Streaming Query ===", ";\n'"):
        text = text.split(noise, 1)[0]
    return f"{type(error).__name__}: {text.strip()}"
