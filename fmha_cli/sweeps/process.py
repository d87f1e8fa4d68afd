"""``ChildProcess``: one worker's process (``child``) as its parent sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from fmha_cli.domain.blas import use_one_thread
from fmha_cli.run.process import same_code, signal_name
from fmha_cli.sweeps.jobs import ChunkJob, Event, event_lines
from fmha_cli.sweeps.leases import Lease
from fmha_cli.system.processes import end_group, kill_group, new_group

_LAST_WORDS = 300
_GRACE_S = 5.0


class ChildProcess:
    """A process that runs chunks on a device, which it holds from its first moment on.

    Args:
        lease: of the device. The child inherits it, and this process lets it go.
        log: the file that takes what the child prints.

    Raises:
        OSError: no process could be started.
    """

    def __init__(self, lease: Lease, log: Path) -> None:
        self._log, self._buffer = log, bytearray()
        environ = same_code()
        use_one_thread(environ)  # here, for the process imports numpy first of all
        self.answers, theirs = os.pipe()
        try:
            with log.open("ab") as talk:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "fmha_cli.sweeps.child", str(theirs), str(lease.descriptor)],
                    stdin=subprocess.PIPE,
                    stdout=talk,
                    stderr=talk,
                    pass_fds=(theirs, lease.descriptor),
                    env=environ,
                    **new_group(),
                )
        except BaseException:
            os.close(self.answers)
            raise
        finally:
            os.close(theirs)
            lease.let_go()

    def send(self, job: ChunkJob) -> None:
        """Give it a chunk. If it has ended, that shows in its answers."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(job.line())
            self._process.stdin.flush()

    def hear(self) -> Sequence[Event] | None:
        """Its output since the last call; None at its end. Blocks until there is something."""
        data = os.read(self.answers, 1 << 20)
        return event_lines(self._buffer, data) if data else None

    def kill(self) -> None:
        """End it and its children at once; its answers then end."""
        kill_group(self._process.pid)

    def bury(self) -> str:
        """Reap it after its answers have ended. Returns how it ended, with the last line that it printed."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S)
        end_group(self._process)
        self._close()
        status = self._process.returncode
        how = f"exit status {status}" if status is None or status >= 0 else signal_name(-status)
        return how if not (words := self._last_words()) else f"{how}: {words}"

    def dismiss(self) -> None:
        """End its input, at which it ends itself."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def close(self) -> None:
        """Let it end itself, and wait for that."""
        self._close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S)
        end_group(self._process)

    def _close(self) -> None:
        self.dismiss()
        if self.answers >= 0:
            os.close(self.answers)
            self.answers = -1

    def _last_words(self) -> str:
        with suppress(OSError):
            lines = self._log.read_text("utf-8", errors="replace").strip().splitlines()
            return lines[-1].strip()[-_LAST_WORDS:] if lines else ""
        return ""


def events_of(child: ChildProcess) -> Iterator[Event]:
    """Every event of a child until it ends."""
    while (events := child.hear()) is not None:
        yield from events
