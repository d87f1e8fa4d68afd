"""A cache in a temporary directory, and a shell script as the "compiler", so most tests need no real one."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import fmha_cli
from fmha_cli.toolchain.cache.key import BuildKey, BuildKind, BuildSpec
from fmha_cli.toolchain.cache.store import BuildProduct, Cache
from fmha_cli.toolchain.cpp.toolchain import Toolchain, ToolchainKind
from fmha_cli.toolchain.notice import Notice, NoticeKind

# The "source" is a shell script that sees $OUT: each test writes what its compiler does.
FAKE_COMPILER = """#!/bin/sh
echo "$$" >> "{calls}"
previous=
for word; do
    if [ "$previous" = -o ]; then OUT=$word; fi
    previous=$word
done
. ./source.cpp
"""

GOOD_SOURCE = 'echo "a warning"; printf "the library %0100d" 7 > "$OUT"'


@dataclass
class Notices:
    """Collects notices."""

    said: list[Notice] = field(default_factory=list)

    def __call__(self, notice: Notice) -> None:
        self.said.append(notice)

    def kinds(self) -> list[NoticeKind]:
        return [notice.kind for notice in self.said]


@dataclass(frozen=True)
class FakeCompiler:
    """The script, and how often it has been started."""

    toolchain: Toolchain
    calls_file: Path

    @property
    def calls(self) -> int:
        return len(self.calls_file.read_text().splitlines()) if self.calls_file.exists() else 0


def write_script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture(autouse=True)
def _quick_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of real fsyncs would take minutes on a busy disk. A separate test checks the calls."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def script() -> Callable[[Path, str], Path]:
    """Write an executable script."""
    return write_script


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Restore Python's handling of SIGINT, which a suite in a background job would ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def notices() -> Notices:
    return Notices()


@pytest.fixture
def cache(tmp_path: Path, notices: Notices) -> Cache:
    return Cache(tmp_path / "cache", notices)


@pytest.fixture
def compiler(tmp_path: Path) -> FakeCompiler:
    calls = tmp_path / "calls"
    path = write_script(tmp_path / "fake-c++", FAKE_COMPILER.format(calls=calls))
    return FakeCompiler(
        Toolchain(argv0=(str(path),), version="fake 1.0", headers_digest="headers-1", kind=ToolchainKind.OTHER), calls
    )


@pytest.fixture
def make_key(compiler: FakeCompiler) -> Callable[..., BuildKey]:
    """Keys for the fake compiler; keyword arguments replace parts."""

    def make(source: str = GOOD_SOURCE, **changes: object) -> BuildKey:
        spec: dict[str, object] = {
            "kind": BuildKind.KERNEL,
            "name": "cpu:fwd:x86_64_v4:dtype=fp32:tile=8",
            "arch": "x86_64_v4",
            "identity": {"family": "fwd", "signature": {"dtype": "fp32"}, "algorithm": {"tile": [8, 16]}},
            "source": source,
        }
        parts: dict[str, object] = {
            "flags": ("-O3", "-shared"),
            "toolchain_path": compiler.toolchain.identity,
            "toolchain_version": compiler.toolchain.version,
            "headers_digest": compiler.toolchain.headers_digest,
            "fmha_version": "1.0",
        }
        own = {name: value for name, value in changes.items() if name not in spec}
        spec |= {name: value for name, value in changes.items() if name in spec}
        return BuildKey(BuildSpec(**spec), **(parts | own))  # type: ignore[arg-type]

    return make


@pytest.fixture
def write_product() -> Callable[..., BuildProduct]:
    """A builder without a process."""

    def build(work: Path, data: bytes = b"library bytes") -> BuildProduct:
        (work / "a.so").write_bytes(data)
        (work / "log").write_bytes(b"$ compile\n")
        return BuildProduct(work / "a.so", work / "log", 1.25, 4096)

    return build


@pytest.fixture
def child() -> Callable[..., subprocess.Popen[str]]:
    """Start a fresh Python with this very package; its stdout and stderr share one pipe."""

    def start(code: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        home = str(Path(fmha_cli.__file__).parents[1])
        env = os.environ | {"PYTHONPATH": home, "PYTHONDONTWRITEBYTECODE": "1"} | environment
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    return start
