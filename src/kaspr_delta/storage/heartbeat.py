"""A lock on storage that several machines share and that knows no locks: a file whose holder keeps renewing it."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, FiniteFloat, ValidationError

from kaspr_delta.errors import AlreadyRunningError


class Record(BaseModel, frozen=True):
    """What the file holds: who has the lease, and when that process was last alive."""

    holder: str
    host: str
    pid: int
    beat: FiniteFloat


@dataclass
class Lease:
    """The right to run a resource, for as long as this process shows that it is alive.

    * Who finds the record of another that is younger than the lease is refused. Any other record is replaced.
    * Two that start at once both write; the last record stays, and both see whose it is when they read again.
    * A holder suspended for longer than the lease finds that another came: ``lost`` is set, and it has to stop.

    Assumed: all clocks agree within seconds, and others see a write before ``settle`` is over; where two hold the
    lease all the same, one notices at its next beat. A beat from the future is fresh until a lease after its time.
    """

    path: Path
    resource: str
    schema: str
    seconds: float = 30
    every: float = 10
    settle: float = 1
    # Not monotonic: beats are compared between machines, and the time a machine was suspended has to count.
    clock: Callable[[], float] = time.time
    pause: Callable[[threading.Event, float], bool] = threading.Event.wait
    holder: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)
    lost: threading.Event = field(default_factory=threading.Event, init=False)
    _left: threading.Event = field(default_factory=threading.Event, init=False)
    _last_beat: float = field(default=0, init=False)

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
            self._if_mine(self.path.unlink)
        if self.lost.is_set():
            msg = f"{self.resource} may run twice on {self.schema}: another took {self.path}, or it was out of reach"
            raise AlreadyRunningError(msg)

    def _acquire(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        while (found := self._read()) is None or found.holder != self.holder:
            if found is not None and (age := self.clock() - found.beat) < self.seconds:
                msg = (
                    f"{self.resource} already runs on {self.schema}: process {found.pid} on host {found.host} was seen "
                    f"{max(0, age):.0f} seconds ago. Stop that one first; if it died, the resource is free "
                    f"{self.seconds:.0f} seconds after that"
                )
                raise AlreadyRunningError(msg)
            self._write()
            self.pause(self._left, self.settle)

    def _keep_beating(self) -> None:
        while not (self.lost.is_set() or self.pause(self._left, self.every)):
            self._if_mine(self._write)

    def _if_mine(self, change: Callable[[], None]) -> None:
        expired = self.clock() - self._last_beat >= self.seconds
        try:
            found = self._read()
            # Another's record, however old, tells that it ran. Without any, nobody came while the last beat was fresh.
            if (found.holder != self.holder) if found else expired:
                self.lost.set()
            else:
                change()
        except OSError:
            # Storage that fails for a moment costs nothing while the last beat keeps others away.
            if expired:
                self.lost.set()

    def _read(self) -> Record | None:
        with contextlib.suppress(FileNotFoundError, ValidationError):
            return Record.model_validate_json(self.path.read_bytes())
        return None

    def _write(self) -> None:
        record = Record(holder=self.holder, host=socket.gethostname(), pid=os.getpid(), beat=self.clock())
        temporary = self.path.with_name(f"{self.path.name}.{self.holder}")
        try:
            temporary.write_text(record.model_dump_json())
            temporary.replace(self.path)
        finally:
            temporary.unlink(missing_ok=True)
        self._last_beat = record.beat
