"""Worker processes that fork from a template, so that only the first one pays for importing Python's modules and numpy.

A worker that ``fmha`` starts is a new interpreter, of which three quarters of a short run's time is imports. ``start`` takes the
place of ``subprocess.Popen`` in ``fmha_cli.run.process``: it asks a process that has imported the worker, but opened and
loaded nothing, to fork. The fork is a process like any other worker: a session of its own, the caller's environment,
working folder, search path and descriptors; it carries out the same ``main`` with the same arguments, and ends or crashes alone.
Where a fork could differ from a new interpreter (see ``_alike``), a new interpreter starts.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from fmha_cli.__main__ import YOUNG_OBJECTS

_WORKER = "fmha_cli.run.worker"
_CPU = ("fmha_cli.backends.cpu.backend", "fmha_cli.backends.cpu.session")
_LOADED = (_WORKER, "fmha_cli.api", "numpy", "numpy.typing", "ml_dtypes", "importlib.resources", *_CPU)
"""What the template imports: nothing that looks at the environment, apart from ``_READ_AT_START``."""

_READ_AT_START = ("PYTHON", "OPENBLAS", "OMP_", "GOMP_", "MKL_", "NPY_", "LD_", "MALLOC", "GLIBC", "COVERAGE", "COV_")
"""Beginnings of the names of variables that the interpreter, numpy or the system read when a process starts."""

_MOST = 1 << 17
_FIRST_FREE = 200
"""The template's own descriptors are at least so high: those of a worker keep the numbers that its parent gave them."""

_NUMBER = struct.Struct("=i")


def _at_start(environ: dict[str, str]) -> dict[str, str]:
    return {k: v for k, v in environ.items() if k.startswith(_READ_AT_START) and k != "PYTHONPATH"}


def _limits() -> tuple[Any, ...]:
    names = sorted(name for name in dir(resource) if name.startswith("RLIMIT_"))
    return (*(resource.getrlimit(getattr(resource, name)) for name in names), sorted(os.sched_getaffinity(0)))


class Forked:
    """The part of ``subprocess.Popen`` that the parent of a worker uses."""

    def __init__(self, ended: int) -> None:
        self.returncode: int | None = None
        self._ended = ended
        self.pid = self._number()

    def _number(self) -> int:
        """What the template says next: the process id, then the status; the status of a template that has been killed."""
        data = os.read(self._ended, _NUMBER.size)
        return int(_NUMBER.unpack(data)[0]) if data else -int(signal.SIGKILL)

    def poll(self) -> int | None:
        if self.returncode is None and self._ended >= 0 and select.select([self._ended], [], [], 0)[0]:
            self._take()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(_WORKER, timeout or 0.0)
            self._take()
        assert self.returncode is not None
        return self.returncode

    def _take(self) -> None:
        self.returncode = self._number()
        os.close(self._ended)
        self._ended = -1

    def __del__(self) -> None:
        if self._ended >= 0:
            os.close(self._ended)


class Template:
    """The process that forks; it ends with the one that started it."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._hiding = _hiding(environ)
        self._state = (sys.executable, _at_start(environ), _limits())
        self._asks, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-u", __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=environ,
            )

    def alike(self, environ: dict[str, str]) -> bool:
        """Whether a fork is what a new interpreter with this environment would be."""
        return (
            self._process.poll() is None
            and self._state == (sys.executable, _at_start(environ), _limits())
            and _hiding(environ) <= self._hiding
        )

    def fork(self, arguments: Sequence[str], environ: dict[str, str], output: int, passed: Sequence[int]) -> Forked:
        ended, theirs = os.pipe()
        try:
            asked = {"arguments": list(arguments), "environ": environ, "folder": os.getcwd(), "passed": list(passed)}
            data = json.dumps(asked).encode("utf-8", "surrogatepass")
            socket.send_fds(self._asks, [data], [theirs, output, *passed])
        except OSError:
            os.close(ended)
            raise
        finally:
            os.close(theirs)
        return Forked(ended)

    def close(self) -> None:
        self._asks.close()
        self._process.wait(60)


def _hiding(environ: dict[str, str]) -> set[str]:
    """The files and folders on the search path that have the name of a module of the template: it has imported them, or they hide it."""
    modules = {module.partition(".")[0] for module in _LOADED}
    names = [*modules, *(f"{module}.py" for module in modules)]
    places = (os.path.join(path, name) for path in environ["PYTHONPATH"].split(os.pathsep) for name in names)
    return {place for place in places if os.path.exists(place)}


class Starter:
    """``Popen`` for ``fmha_cli.run.process``: a fork of a template where that makes no difference."""

    def __init__(self) -> None:
        self._popen = subprocess.Popen
        self._template: Template | None = None

    def start(self, argv: Sequence[str], **more: Any) -> Any:
        environ = more["env"]
        if list(argv[1:5]) != ["-P", "-u", "-m", _WORKER] or subprocess.Popen is not self._popen or not _fits(environ):
            return subprocess.Popen(argv, **more)
        if self._template is None:
            self._template = Template(environ)
        if not self._template.alike(environ):
            return subprocess.Popen(argv, **more)
        try:
            return self._template.fork(argv[5:], environ, more["stdout"], more["pass_fds"])
        except OSError:
            return subprocess.Popen(argv, **more)

    def close(self) -> None:
        if self._template is not None:
            self._template.close()


def _fits(environ: dict[str, str]) -> bool:
    return (
        sys.platform == "linux"
        and hasattr(os, "pidfd_open")
        and sum(len(k) + len(v) for k, v in environ.items()) < _MOST // 8
    )


@contextlib.contextmanager
def forked_workers() -> Iterator[None]:
    """While it lasts, workers of this process fork from one template."""
    from fmha_cli.run import process

    starter, real = Starter(), process.subprocess
    known = {"DEVNULL": subprocess.DEVNULL, "TimeoutExpired": subprocess.TimeoutExpired}
    process.subprocess = SimpleNamespace(Popen=starter.start, **known)  # type: ignore[assignment]
    try:
        yield
    finally:
        process.subprocess = real
        starter.close()


def _high(descriptor: int) -> int:
    """The same file at a number that no worker's parent has chosen."""
    moved: int = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
    os.close(descriptor)
    return moved


def _forked(asks: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork for every request until there are no more. Returns only in a fork, with what is asked and its descriptors."""
    running: dict[int, tuple[int, int]] = {}
    events = select.poll()
    events.register(asks, select.POLLIN)
    while True:
        for ready, _ in events.poll():
            if ready == asks.fileno():
                continue
            process, ended = running.pop(ready)
            with contextlib.suppress(BrokenPipeError):
                os.write(ended, _NUMBER.pack(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])))
            events.unregister(ready)
            os.close(ready)
            os.close(ended)
        if not select.select([asks], [], [], 0)[0]:
            continue
        data, received, _, _ = socket.recv_fds(asks, _MOST, 64)
        if not data:
            os._exit(0)
        ended, *descriptors = [_high(descriptor) for descriptor in received]
        process = os.fork()
        if process == 0:
            for pair in running.items():
                os.close(pair[0])
                os.close(pair[1][1])
            asks.close()
            os.close(ended)
            return json.loads(data), descriptors
        for descriptor in descriptors:
            os.close(descriptor)
        watched = _high(os.pidfd_open(process))
        running[watched] = process, ended
        events.register(watched, select.POLLIN)
        with contextlib.suppress(BrokenPipeError):
            os.write(ended, _NUMBER.pack(process))


def _become(asked: dict[str, Any], descriptors: list[int]) -> list[str]:
    """Make this fork what the request describes; its arguments, with the process that forked it as its parent."""
    os.setsid()
    output, *passed = descriptors
    for stream in (1, 2):
        os.dup2(output, stream)
    for descriptor, number in zip(passed, asked["passed"], strict=True):
        os.dup2(descriptor, number)
    for descriptor in descriptors:
        os.close(descriptor)
    os.chdir(asked["folder"])
    own_path = [path for path in sys.path if path not in os.environ["PYTHONPATH"].split(os.pathsep)]
    os.environ.clear()
    os.environ.update(asked["environ"])
    sys.path[:] = dict.fromkeys([*asked["environ"]["PYTHONPATH"].split(os.pathsep), *own_path])
    importlib.invalidate_caches()
    channel, lifeline, _, pdeathsig = asked["arguments"]
    return [channel, lifeline, str(os.getppid()), pdeathsig]


def _template(asks: int) -> None:
    gc.set_threshold(YOUNG_OBJECTS)
    for name in _LOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    arguments = _become(*_forked(socket.socket(fileno=_high(asks))))
    sys.modules["__main__"] = worker = importlib.import_module(_WORKER)  # as in a new interpreter
    worker.main(arguments)


if __name__ == "__main__":
    _template(int(sys.argv[1]))
