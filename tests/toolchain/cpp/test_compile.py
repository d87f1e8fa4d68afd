"""One compile: command line, log and result, with no process left running."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.domain.errors import EnvironmentProblem, Interrupted, KernelFailure
from fmha_cli.toolchain.cache.key import BuildKey
from fmha_cli.toolchain.cache.layout import LOG
from fmha_cli.toolchain.cache.store import BuildError, BuildProduct, Cache
from fmha_cli.toolchain.cpp.compile import compile_library, first_error_line
from fmha_cli.toolchain.cpp.find import find_toolchain
from fmha_cli.toolchain.cpp.library import build_kernel
from fmha_cli.toolchain.cpp.toolchain import Toolchain, ToolchainKind
from tests.support.live_processes import running

LONG = 3600.0

Run = Callable[..., BuildProduct]


@pytest.fixture
def run(compiler: Any, tmp_path: Path) -> Run:
    """Compile a shell script with the fake compiler."""
    work = tmp_path / "work"
    work.mkdir()

    def go(source: str, flags: tuple[str, ...] = (), timeout: float = LONG, **more: Any) -> BuildProduct:
        return compile_library(compiler.toolchain, source, flags, work / "out.so", timeout, work / "log", **more)

    return go


def failure(run: Run, source: str, **more: Any) -> BuildError:
    """The error of a compile that must fail."""
    with pytest.raises(BuildError) as caught:
        run(source, **more)
    return caught.value


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("did not happen within 30 s")


def test_success(run: Run) -> None:
    result = run('echo "a warning" >&2; echo "library" > "$OUT"', ("-O3", "-lm", "-shared"))
    assert result.artifact.read_text() == "library\n"
    log = result.log.read_text().splitlines()
    assert log[0].startswith("$ ")
    assert log[0].endswith("fake-c++ -O3 -shared source.cpp -lm -o out.so")
    assert log[1] == "# fake 1.0"
    assert log[2] == "a warning"
    assert log[3].startswith("# exit status 0; wall ")
    assert "peak memory" in log[3]
    assert result.seconds > 0
    assert result.peak_bytes is None or result.peak_bytes > 0


def test_the_command_in_the_log_is_quoted(run: Run) -> None:
    result = run('echo x > "$OUT"', ("-DTEXT=a b'c",))
    assert "'-DTEXT=a b'\"'\"'c'" in result.log.read_text().splitlines()[0]


def test_the_first_error_line_leads(run: Run) -> None:
    result = failure(
        run, 'echo "In file included"; echo "source.cpp:3:1: error: boom"; echo "x: error: second"; exit 1'
    )
    assert result.summary == "source.cpp:3:1: error: boom"
    assert result.why == "the compiler exited with status 1"


def test_without_an_error_line_the_exit_status_leads(run: Run) -> None:
    assert failure(run, "exit 3").summary == "the compiler exited with status 3"


def test_success_without_a_library_is_a_failure(run: Run) -> None:
    assert failure(run, "exit 0").summary == "the compiler exited with status 0 but wrote no library"


@pytest.mark.parametrize(("name", "words"), [("KILL", "memory ran out"), ("SEGV", "signal 11")])
def test_a_killed_compiler_says_so(run: Run, name: str, words: str) -> None:
    assert words in failure(run, f"kill -{name} $$; sleep {LONG}").summary


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("source.cpp:1:2: error: expected ';'", True),
        ("source.cpp:1:10: fatal error: omp.h: No such file or directory", True),
        ("error: unknown CPU: 'x86'", True),
        ("g++: internal compiler error: Killed (program cc1plus)", True),
        ("g++: fatal error: Killed signal terminated program cc1plus", True),
        ("/usr/bin/ld: /tmp/x.o: undefined reference to `f()'", True),
        ("/usr/bin/ld: cannot find -lomp: No such file or directory", True),
        ("ld.lld: error: undefined symbol: f", True),
        ("source.cpp:1:2: warning: unused variable 'error'", False),
        ("$ g++ -DX='error: no' source.cpp", False),
        ("compilation terminated.", False),
    ],
)
def test_error_lines(line: str, found: bool) -> None:
    assert first_error_line(f"before\n  {line}\nafter: error: later\n" if found else line) == (line if found else None)


def test_a_very_long_error_line_is_cut() -> None:
    assert len(first_error_line("error: " + "x" * 10_000) or "") == 400


def test_timeout_kills_the_whole_group(run: Run, tmp_path: Path) -> None:
    """The timeout also kills a child that the compiler put in the background, and one that ignores polite signals."""
    pids = tmp_path / "pids"
    source = (
        "trap '' TERM INT HUP\n"
        f"sh -c \"trap '' TERM INT HUP; echo \\$\\$ >> '{pids}'; while :; do sleep 1; done\" &\n"
        f"while [ ! -s '{pids}' ]; do sleep 0.01; done\n"
        f"echo $$ >> '{pids}'\n"
        f"while :; do sleep {LONG}; done"
    )
    result = failure(run, source, timeout=0.2)
    assert result.summary == "the compiler was killed after its limit of 2 s from its start"
    assert result.log is not None
    assert "killed after" in result.log.read_text()
    started = [int(pid) for pid in pids.read_text().split()] if pids.exists() else []
    wait_until(lambda: not any(running(pid) for pid in started))


def test_a_child_that_outlives_the_compiler_is_killed(run: Run, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    run(f'sleep {LONG} & echo $! > "{pid_file}"; echo x > "$OUT"')
    wait_until(lambda: not running(int(pid_file.read_text())))


def test_cancel_kills_the_compiler(run: Run, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    cancel = threading.Event()

    def when_started() -> None:
        wait_until(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
        cancel.set()

    watcher = threading.Thread(target=when_started)
    watcher.start()
    with pytest.raises(Interrupted):
        run(f'echo $$ > "{pid_file}"; sleep {LONG}', cancel=cancel)
    watcher.join()
    wait_until(lambda: not running(int(pid_file.read_text())))


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_kills_the_compiler(run: Run, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    with pytest.raises(KeyboardInterrupt):
        run(f'echo $$ > "{pid_file}"; kill -INT {os.getpid()}; sleep {LONG}')
    wait_until(lambda: not running(int(pid_file.read_text())))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG])
def test_a_full_disk_is_no_fault_of_the_kernel(run: Run, number: int) -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        run(f'echo "/tmp/x.s: fatal error: error writing: {os.strerror(number)}"; exit 1')
    assert os.strerror(number) in str(caught.value)


def test_a_compiler_that_is_gone(tmp_path: Path) -> None:
    toolchain = Toolchain(argv0=(str(tmp_path / "no"),), version="g++ 1", headers_digest="h", kind=ToolchainKind.GCC)
    with pytest.raises(EnvironmentProblem, match="cannot be started"):
        compile_library(toolchain, "", (), tmp_path / "out", LONG, tmp_path / "log")


def test_variables_that_are_not_in_the_key_do_not_reach_the_compiler(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    meddlers = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH")
    for name in (*meddlers, "CCC_OVERRIDE_OPTIONS", "NVCC_APPEND_FLAGS", "FMHA_TEST_KEPT"):
        monkeypatch.setenv(name, "set")
    seen = run('env > "$OUT"').artifact.read_text()
    assert "FMHA_TEST_KEPT=set" in seen
    names = {line.partition("=")[0] for line in seen.splitlines()}
    assert [name for name in (*meddlers, "CCC_OVERRIDE_OPTIONS", "NVCC_APPEND_FLAGS") if name in names] == []
    assert "SOURCE_DATE_EPOCH=0\n" in seen
    assert "LC_ALL=C\n" in seen
    assert f"TMPDIR={tmp_path / 'work' / 'scratch'}\n" in seen


def test_no_standard_input(run: Run) -> None:
    """A compiler that asks a question must not consume what the user pipes into fmha."""
    reader, writer = os.pipe()
    os.write(writer, b"for fmha\n")
    os.close(writer)
    before = os.dup(0)
    os.dup2(reader, 0)
    try:
        result = run('read -r word; echo "read:$word" > "$OUT"')
        assert result.artifact.read_text() == "read:\n"
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(reader)


def test_build_kernel_runs_the_compiler_once(cache: Cache, compiler: Any, make_key: Callable[..., BuildKey]) -> None:
    key = make_key()
    first = build_kernel(cache, key, compiler.toolchain)
    second = build_kernel(cache, key, compiler.toolchain)
    assert (first.cached, second.cached, compiler.calls) == (False, True, 1)
    assert first.path.read_text().startswith("the library")
    assert "a warning" in first.log.read_text()


def test_build_kernel_failure(cache: Cache, compiler: Any, make_key: Callable[..., BuildKey]) -> None:
    key = make_key('echo "source.cpp:1:1: error: boom"; exit 1')
    with pytest.raises(KernelFailure) as caught:
        build_kernel(cache, key, compiler.toolchain)
    log = cache.layout.failed / key.digest / LOG
    assert str(caught.value) == f"source.cpp:1:1: error: boom [log: {log}]"
    assert "exited with status 1" in (caught.value.why or "")
    assert log.read_text().startswith("$ ")


def test_build_kernel_timeout(cache: Cache, compiler: Any, make_key: Callable[..., BuildKey]) -> None:
    with pytest.raises(KernelFailure, match=r"its limit of 1 s from its start"):
        build_kernel(cache, make_key(f"sleep {LONG}"), compiler.toolchain, timeout=0.1)


def test_a_key_for_another_toolchain_is_refused(cache: Cache, compiler: Any, make_key: Callable[..., BuildKey]) -> None:
    with pytest.raises(ValueError, match="was made for"):
        build_kernel(cache, make_key(toolchain_version="fake 2.0"), compiler.toolchain)


needs_compiler = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="there is no g++ or clang++ on PATH"
)


@needs_compiler
def test_a_real_library_loads_and_is_the_same_from_any_directory(
    tmp_path: Path, make_key: Callable[..., BuildKey]
) -> None:
    digests = set()
    for name in ("a", "a_much_longer_name"):
        cache = Cache(tmp_path / name)
        toolchain = find_toolchain(cache.layout, environ={"PATH": os.environ["PATH"]})
        key = make_key(
            '#include <cmath>\nextern "C" double twice(double x) { return std::sqrt(4.0) * x; }\n'
            "const char* where() { return __FILE__ __DATE__ __TIME__; }\n",
            flags=("-O2", "-shared", "-fPIC", "-lm"),
            toolchain_path=toolchain.identity,
            toolchain_version=toolchain.version,
        )
        artifact = build_kernel(cache, key, toolchain)
        digests.add(artifact.sha256)
        twice = ctypes.CDLL(str(artifact.path)).twice
        twice.restype, twice.argtypes = ctypes.c_double, [ctypes.c_double]
        assert twice(21.0) == 42.0
        assert "peak memory" in artifact.log.read_text()
    assert len(digests) == 1


@needs_compiler
def test_a_real_error_is_summarised(tmp_path: Path, make_key: Callable[..., BuildKey]) -> None:
    cache = Cache(tmp_path / "cache")
    toolchain = find_toolchain(cache.layout, environ={"PATH": os.environ["PATH"]})
    identity = {"toolchain_path": toolchain.identity, "toolchain_version": toolchain.version}
    with pytest.raises(KernelFailure, match=r"^source\.cpp:2:\d+: error: .*undeclared_thing"):
        build_kernel(cache, make_key("int f() {\n return undeclared_thing;\n}\n", **identity), toolchain)
    unresolved = make_key("int g(); int main() { return g(); }\n", flags=("-O0",), **identity)
    with pytest.raises(KernelFailure, match=r"undefined (reference|symbol)"):
        build_kernel(cache, unresolved, toolchain)
