"""Build the emulator: one object for each translation unit, linked to a library with the HIP runtime's own name.

``python -m fmha_amdgpu_emu.building`` builds it and prints its path.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

from fmha_amdgpu_emu.units import core_units
from fmha_cli.api import (
    Artifact,
    BuildContext,
    BuildKind,
    BuildSpec,
    FmhaError,
    Interrupted,
    Job,
    Toolchain,
    build_cpp,
    build_many,
    build_registry,
    cache_root,
    load_arch,
)

SONAME = "libamdhip64.so"
"""A program that opens this name once the library is loaded gets the emulator."""

_COMPILE = (
    "-std=c++20",
    "-O2",
    "-c",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-math-errno",
    "-ffp-contract=off",
    "-pthread",
    "-w",
)
"""-ffp-contract=off: a product and a sum round separately, unless the instruction fuses them. -w: GCC 12 warns inside its
own intrinsic headers."""

_PREFIX = "prefix.hpp"
_INCLUDE = ("-include", f"${{prefix}}/{_PREFIX}")
_LINK = ("-shared", "-Wl,--no-undefined", "-fPIC", "-pthread", "-ldl", f"-Wl,-soname,{SONAME}")
_COMPILE_BYTES = 700 * 2**20
_SECONDS = 600.0
_WORTH_IT = 8
"""With fewer units to compile, compiling the prefix first takes longer than it saves."""


def build_emulator(context: BuildContext) -> Artifact:
    """The library, from the cache or compiled now by ``context.jobs`` compilers at once.

    Raises:
        KernelFailure: a unit does not compile, or they do not link.
        EnvironmentProblem: no C++ compiler, or the cache is unusable.
        Interrupted: ``context.stop`` was set.
    """
    flags = _Flags()
    units = core_units()
    with tempfile.TemporaryDirectory(prefix="fmha-emu-") as folder:
        prefix = Path(folder, _PREFIX)
        prefix.write_text(units.prefix, "utf-8")
        (head, *rest) = [(name, _compile(name, text, flags, context, folder)) for name, text in units.texts.items()]
        first = head[1](Event())  # alone, so that a machine without a compiler fails once
        if not first.cached and len(rest) > _WORTH_IT:
            _precompile(prefix, flags)
        jobs = [Job(name, compile_unit, _COMPILE_BYTES) for name, compile_unit in rest]
        batch = build_many(jobs, max(1, context.jobs), _saying_once(context.notify))
    for outcome in batch.outcomes:
        if outcome.error and not isinstance(outcome.error, Interrupted):
            raise outcome.error
    objects = [first, *(outcome.value for outcome in batch.outcomes if outcome.value is not None)]
    if len(objects) < len(units.texts):
        raise Interrupted("the emulator was not built: interrupted", code="B009")
    root = str(context.cache_root)
    inputs = [str(one.path).replace(root, "${cache}", 1) for one in objects]
    text = "// " + "\n// ".join(f"{one.sha256} {name}" for name, one in zip(units.texts, objects, strict=True)) + "\n"
    return build_cpp(_spec("library", flags.arch, text), context, (*_LINK, *inputs), places={"cache": root})


def _precompile(prefix: Path, flags: _Flags) -> None:
    """Compile the prefix once, beside its text, where GCC and clang look for it.

    It makes the other units' compiles a third shorter. Their objects do not depend on it: without it, compilers read the
    text. So a compiler that cannot do it costs time only.
    """
    toolchain = flags.toolchain
    if toolchain is None:
        return
    command = [*toolchain.argv0, *flags.of(toolchain), "-x", "c++-header", prefix.name, "-o", f"{prefix.name}.gch"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(command, cwd=prefix.parent, capture_output=True, check=False, timeout=_SECONDS)


def _saying_once(notify: Callable[[str], None]) -> Callable[[int, int, Any], None]:
    """Listens to finished units. After the first compiled one it announces that the emulator is being built, which takes about a minute."""
    said = False

    def done(count: int, total: int, outcome: Any) -> None:
        nonlocal said
        if not said and outcome.value is not None and not outcome.value.cached:
            said = True
            notify(f"building the emulator ({total} files), once for this machine")

    return done


def _compile(name: str, text: str, flags: _Flags, context: BuildContext, prefix: str) -> Callable[[Event], Artifact]:
    def run(stop: Event) -> Artifact:
        own = BuildContext(
            cache_root=context.cache_root, timeout=context.timeout, notify=context.notify, stop=context.stop or stop
        )
        return build_cpp(_spec(name, flags.arch, text), own, flags, places={"prefix": prefix})

    return run


def _spec(part: str, arch: str, text: str) -> BuildSpec:
    """A part of the emulator: one translation unit, or the library that joins all of them."""
    return BuildSpec(BuildKind.EMULATOR, f"amdgpu_emu:{part}", arch, {"part": part}, text)


class _Flags:
    """The flags of a unit for this machine, for the compiler that the build finds.

    Attributes:
        arch: this machine's best CPU architecture according to the CPU backend.
        toolchain: the compiler that asked last; None before the first build.
    """

    def __init__(self) -> None:
        devices = build_registry().backend("cpu").probe().devices
        self.arch = devices[0].archs[0]
        self.toolchain: Toolchain | None = None
        self._choices = load_arch(self.arch).backends["cpu"]["compile"]

    def of(self, toolchain: Toolchain) -> tuple[str, ...]:
        """The flags without the prefix."""
        return (*_COMPILE, *self._choices[toolchain.kind.value])

    def __call__(self, toolchain: Toolchain) -> tuple[str, ...]:
        self.toolchain = toolchain
        return (*self.of(toolchain), *_INCLUDE)


def main() -> int:
    """Build with two compilers at once and print the library's path."""
    context = BuildContext(cache_root=cache_root(), jobs=min(2, os.cpu_count() or 1), timeout=_SECONDS)
    try:
        print(build_emulator(context).path)
    except FmhaError as error:
        print(error, getattr(error, "where", ""), getattr(error, "help", ""), sep="\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
