"""One worker process as the parent sees it: start it, ask it, notice its death, kill it and everything it started."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from fmha_cli.domain.blas import as_the_user_set_it
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.run.protocol import VERSION, Decoder, Message, ProtocolError, encode
from fmha_cli.system import handover
from fmha_cli.system.processes import ABORTED, KILLED, ended_for_memory, kill_group, new_group

LOG_KEPT = 64 * 1024
"""Bytes of a worker's output that are kept, even if a kernel prints without end."""

START_S = 60.0
"""Seconds that a worker may take until its first answer. Only slow disks and busy machines need so many."""

_TICK_S = 0.25
_GRACE_S = 2.0
_WORKER = "fmha_cli.run.worker"
_BAD_ALLOC = b"std::bad_alloc"


@dataclass(frozen=True)
class Death:
    """How a worker ended: the verdict on its request, and one line for people."""

    verdict: Verdict
    note: str


class WorkerProcess:
    """A worker in its own session and process group. Not for several threads.

    It dies with the parent: through a pipe whose end it watches, and on Linux through a signal of the system
    when it was started by the main thread. Its output on stdout and stderr is kept as a log.

    Args:
        held: further descriptors that it inherits and never uses; a lock of such a file lasts until it has ended.

    Raises:
        EnvironmentProblem: no process could be started.
    """

    def __init__(self, held: Sequence[int] = ()) -> None:
        if not handover.possible():
            raise EnvironmentProblem("no worker process", code="X020", why=handover.WHY_NOT, help=handover.HELP)
        self._channel, theirs = socket.socketpair()
        life_read, lifeline = os.pipe()
        self._output, output_write = os.pipe()
        self._pipes: tuple[int, ...] = (lifeline, self._output)
        os.set_blocking(self._output, False)
        main = threading.current_thread() is threading.main_thread()
        descriptors = (theirs.fileno(), life_read)
        arguments = [*(str(d) for d in descriptors), str(os.getpid()), str(int(main))]
        try:
            self._process = subprocess.Popen(
                # -P: a module in the user's directory must not replace a library
                # -u: what a kernel prints before it crashes must reach the log (C's stdout is unbuffered by it too)
                [sys.executable, "-P", "-u", "-m", _WORKER, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output_write,
                stderr=output_write,
                pass_fds=(*descriptors, *held),
                **new_group(),
                env=same_code(),
            )
        except OSError as fault:
            self._release()
            raise EnvironmentProblem("no worker process", code="X020", why=str(fault)) from fault
        finally:
            theirs.close()
            os.close(life_read)
            os.close(output_write)
        self._decoder = Decoder()
        self._log = bytearray()
        self._seq = 0
        self._greeted = False
        self._oom_kills = ended_for_memory()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._channel, selectors.EVENT_READ)
        self._selector.register(self._output, selectors.EVENT_READ)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def log_tail(self, limit: int = 4096) -> str:
        """The last ``limit`` bytes that the worker printed since :meth:`clear_log`."""
        self._drain_output()
        return bytes(self._log[-limit:]).decode("utf-8", "replace")

    def clear_log(self) -> None:
        """Forget the output so far."""
        self._drain_output()
        self._log.clear()

    def greet(self) -> None:
        """Wait until the worker has started. Return at once if it has answered before.

        Raises:
            EnvironmentProblem: it died, or has another version.
        """
        if self._greeted:
            return
        answer = self.ask({"do": "hello"}, timeout=START_S)
        if isinstance(answer, Death) or answer.get("version") != VERSION:
            why = answer.note if isinstance(answer, Death) else f"protocol {answer.get('version')}, not {VERSION}"
            tail = self.log_tail().strip()
            self.kill()
            raise EnvironmentProblem(
                "the worker process did not start", code="X021", why=f"{why}; {tail}" if tail else why
            )
        self._greeted = True

    def ask(
        self, request: Message, *, descriptors: Sequence[int] = (), timeout: float | None = None
    ) -> Message | Death:
        """Send a request and wait for its answer. After a Death the process and its whole group are gone.

        Args:
            timeout: seconds; None waits forever.

        Raises:
            KeyboardInterrupt: the user interrupted; the group was killed.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        self._seq += 1
        try:
            frame = encode({"seq": self._seq, **request})
            self._channel.settimeout(START_S)
            sent = handover.send(self._channel, frame, descriptors)
            if sent < len(frame):  # sending nothing fails too, if the worker has answered and ended meanwhile
                self._channel.sendall(frame[sent:])
            return self._wait(deadline, timeout)
        except (OSError, EOFError):
            return self._bury("closed its channel")
        except ProtocolError as fault:
            self.kill()
            return Death(Verdict.CRASHED, f"garbage on the protocol channel ({fault})")
        except BaseException:
            self.kill()
            raise

    def _wait(self, deadline: float | None, timeout: float | None) -> Message | Death:
        while True:
            left = _TICK_S if deadline is None else min(_TICK_S, deadline - time.monotonic())
            ended = not self.alive  # looked at first: a worker may answer, and end, after the look at its channel
            events = self._selector.select(max(0.0, left))
            ready = [key.fileobj for key, _ in events]
            if self._output in ready:
                self._drain_output()
            if self._channel in ready:
                data = self._channel.recv(1 << 20)
                if not data:
                    raise EOFError
                answers = self._decoder.feed(data)
                if answers and (len(answers) != 1 or answers[0].get("seq") != self._seq):
                    raise ProtocolError("an answer without a request")
                if answers:
                    return answers[0]
            elif not events and ended:
                raise EOFError
            if deadline is not None and time.monotonic() >= deadline:
                self.kill()
                return Death(Verdict.TIMED_OUT, f"no answer after {timeout:.3g} s; killed")

    def _drain_output(self) -> None:
        """Read what was printed, up to the limit, so endless output cannot block the parent."""
        with suppress(BlockingIOError):
            for _ in range(LOG_KEPT // 4096):
                data = os.read(self._output, 1 << 16)
                self._log += data
                del self._log[:-LOG_KEPT]
                if not data:
                    with suppress(KeyError):
                        self._selector.unregister(self._output)
                    return

    def _bury(self, otherwise: str) -> Death:
        """The verdict on a worker that ended on its own, or hangs without a channel."""
        try:
            status = self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return Death(Verdict.CRASHED, f"the worker {otherwise}")
        self.kill()
        if status >= 0:
            return Death(Verdict.CRASHED, f"the worker exited with status {status}")
        name = signal_name(-status)
        if status == KILLED and ended_for_memory() > self._oom_kills:
            return Death(Verdict.OUT_OF_MEMORY, "the system ran out of memory and killed the worker")
        self._drain_output()
        if status == ABORTED and _BAD_ALLOC in self._log:
            return Death(Verdict.OUT_OF_MEMORY, "an allocation failed (std::bad_alloc)")
        return Death(Verdict.CRASHED, f"the worker died of {name}")

    def kill(self) -> None:
        """End the worker and everything in its process group now. May be called again, and after ``close``."""
        if not self._pipes:  # its number may be another process's by now
            return
        kill_group(self._process.pid)
        with suppress(subprocess.TimeoutExpired):  # a process stuck inside the system is left to it
            self._process.wait(_GRACE_S)

    def close(self, grace: float = _GRACE_S) -> None:
        """Let the worker close its devices, then end it; frees the descriptors. May be called again."""
        end = time.monotonic() + grace
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)
            self._channel.settimeout(grace)
            while self._channel.recv(1 << 16):  # to its end: waiting for a process looks at it at ever longer intervals
                pass
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, end - time.monotonic()))
        self.kill()
        self._selector.close()
        self._release()

    def abandon(self) -> None:
        """In a forked child: free its copies of the descriptors. The worker goes on for the process that started it."""
        self._selector.close()
        self._release()

    def _release(self) -> None:
        self._channel.close()
        descriptors, self._pipes = self._pipes, ()
        for descriptor in descriptors:
            os.close(descriptor)


@contextmanager
def early_worker() -> Iterator[WorkerProcess | None]:
    """A worker that gets ready while the parent is still importing what a run needs, numpy above all. It ends with the block.

    Use it in the main thread. None if no process could be started: the first request that needs one reports it.
    """
    worker = None
    with suppress(EnvironmentProblem):
        worker = WorkerProcess()
    try:
        yield worker
    finally:
        if worker is not None:
            worker.kill()
            worker.close()


def same_code() -> dict[str, str]:
    """The parent's environment with its module search path, so both processes import the same code."""
    path = [os.path.abspath(entry) for entry in sys.path]
    return {**as_the_user_set_it(os.environ), "PYTHONPATH": os.pathsep.join(path)}


def signal_name(number: int) -> str:
    """``SIGKILL``, or ``signal 40`` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
