"""A lease on storage that several machines share: a file that its holder keeps renewing."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pydantic import BaseModel, FiniteFloat, ValidationError

from kaspr_delta import steady_clock
from kaspr_delta.errors import AlreadyRunningError
from kaspr_delta.storage.folders import Folder, create_once

_log = logging.getLogger(__name__)


class Record(BaseModel, frozen=True):
    """The content of the file: the process that holds the lease, and how often it has renewed it.

    ``beat`` is the time of the last renewal in Unix seconds by that machine's clock. It is for people only.
    """

    holder: str
    host: str
    pid: int
    beat: FiniteFloat
    count: int = 0


@dataclass
class Lease:
    """The right to run a resource, for as long as this process renews it.

    * A process that finds the record of another one watches it for the length of the lease (``seconds``). It is refused
      if the record changes meanwhile, and replaces the record if not.
    * Of two processes that start at once both write. The last record stays; the other process reads it after
      ``settle`` and is refused as soon as that record is renewed.
    * A holder that was suspended for longer than the lease finds that another came: ``lost`` is set, and it must stop.

    No two clocks are compared: each process counts seconds by its own. Assumed is that a renewal, due ``every`` so many
    seconds, is seen by other machines before a lease is over. Where two hold the lease all the same, one of them
    notices at its next renewal.
    """

    folder: Folder
    name: str
    resource: str
    schema: str
    seconds: float = 30
    every: float = 5
    settle: float = 1
    clock: Callable[[], float] = steady_clock.seconds
    pause: Callable[[threading.Event, float], bool] = threading.Event.wait
    holder: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)
    lost: threading.Event = field(default_factory=threading.Event, init=False)
    _left: threading.Event = field(default_factory=threading.Event, init=False)
    _renewed: float = field(default=0, init=False)
    _count: int = field(default=0, init=False)

    def is_lost(self) -> bool:
        """Whether another process holds it, or may hold it: this one was suspended, and did not renew it in time."""
        return self.lost.is_set() or self.clock() - self._renewed >= self.seconds

    @property
    def path(self) -> str:
        """The place of the file, for people."""
        return f"{self.folder}/{self.name}"

    @contextlib.contextmanager
    def held(self) -> Iterator[Lease]:
        """Held, once, for the time of the block.

        Raises AlreadyRunningError at the start when another holds it, at a normal end when it was lost; and OSError.
        """
        heartbeat = threading.Thread(target=self._keep_beating, name=f"heartbeat {self.resource}", daemon=True)
        try:
            self._acquire()
            heartbeat.start()
            yield self
        finally:
            self._left.set()
            if heartbeat.is_alive():
                heartbeat.join()
            self._if_mine(lambda: self.folder.remove(self.name))
        if self.lost.is_set():
            msg = f"{self.resource} may run twice on {self.schema}: another took {self.path}, or it was out of reach"
            raise AlreadyRunningError(msg)

    def _acquire(self) -> None:
        self.folder.make()
        watched, since = None, 0.0
        while (found := self._read()) is None or found.holder != self.holder:
            if found is None and self.folder.writes_if_absent:
                self._write(once=True)
                continue  # whoever created it finds its own record
            if found is None or (found == watched and self.clock() - since >= self.seconds):
                self._write()
            elif watched is None:
                _log.warning("%s: waiting to see whether %s still runs it", self.resource, _process(found))
                watched, since = found, self.clock()
            elif found != watched:
                msg = (
                    f"{self.resource} already runs on {self.schema}: {_process(found)} keeps renewing {self.path}. Stop"
                    f" that one first; if it dies, the resource is free {self.seconds:.0f} seconds later"
                )
                raise AlreadyRunningError(msg)
            self.pause(self._left, self.settle)

    def _keep_beating(self) -> None:
        while not (self.lost.is_set() or self.pause(self._left, self.every)):
            self.renew()

    def renew(self) -> None:
        """Renew the lease, unless another process holds it now: then it is ``lost``."""
        self._if_mine(self._write)

    def _if_mine(self, change: Callable[[], None]) -> None:
        expired = self.clock() - self._renewed >= self.seconds
        try:
            found = self._read()
            # A record of another process shows that it ran. Without any record no process has run while the lease held.
            if (found.holder != self.holder) if found else expired:
                self.lost.set()
            else:
                change()
        except OSError:
            # A short failure of the storage is harmless while the last renewal keeps others away.
            if expired:
                self.lost.set()

    def _read(self) -> Record | None:
        with contextlib.suppress(FileNotFoundError, ValidationError):
            return Record.model_validate_json(self.folder.read(self.name))
        return None

    def _write(self, *, once: bool = False) -> None:
        self._count += 1
        now = self.clock()
        record = Record(
            holder=self.holder, host=socket.gethostname(), pid=os.getpid(), beat=time.time(), count=self._count
        )
        content = record.model_dump_json().encode()
        if once:
            create_once(self.folder, self.name, content)
        else:
            self.folder.write(self.name, content)
        self._renewed = now


def _process(found: Record) -> str:
    return f"process {found.pid} on host {found.host}"
