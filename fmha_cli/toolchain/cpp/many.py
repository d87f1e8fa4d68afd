"""Build a library of several translation units: one object for each through the cache, then one link."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.errors import Interrupted
from fmha_cli.domain.phases import Phase
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.toolchain.cache.key import BuildKind, BuildSpec
from fmha_cli.toolchain.cpp.library import build_cpp
from fmha_cli.toolchain.cpp.toolchain import Toolchain
from fmha_cli.toolchain.cpp.units import Units
from fmha_cli.toolchain.parallel import Job, build_many

_PREFIX = "prefix.hpp"
_INCLUDE = ("-include", f"${{prefix}}/{_PREFIX}")
_LINK = ("-shared", "-Wl,--no-undefined", "-fPIC", "-pthread", "-ldl")
_COMPILE_BYTES = 700 * 2**20
_SECONDS = 600.0
_WORTH_IT = 8
"""With fewer units to compile, compiling the prefix first takes longer than it saves."""


@dataclass(frozen=True, kw_only=True)
class UnitsLibrary:
    """The thing to build.

    Attributes:
        name: of the library's entries in the cache (``amdgpu_emu``).
        kind: of these entries.
        soname: the name that the loader knows the library by.
        arch: the machine that the flags are for, as the key names it.
        flags: of every unit.
        flags_of: further flags, by the kind of the compiler.
        levels: the level of optimisation of units that need another one, by name.
        units: the texts.
        notice: said once, when something has to be compiled; ``{count}`` is the number of units.
    """

    name: str
    kind: BuildKind
    soname: str
    arch: str
    flags: tuple[str, ...]
    flags_of: Mapping[str, Sequence[str]]
    levels: Mapping[str, str]
    units: Units
    notice: str


def build_units(library: UnitsLibrary, context: BuildContext) -> Artifact:
    """The library, from the cache or compiled now by ``context.jobs`` compilers at once.

    Raises:
        KernelFailure: a unit does not compile, or they do not link.
        EnvironmentProblem: no C++ compiler, or the cache is unusable.
        Interrupted: ``context.stop`` was set.
    """
    flags, units = _Flags(library), library.units
    with tempfile.TemporaryDirectory(prefix="fmha-units-") as folder:
        prefix = Path(folder, _PREFIX)
        prefix.write_text(units.prefix, "utf-8")
        # The shortest alone, so a machine without a compiler fails once; then the longest first, so none ends far behind.
        (*rest, head) = sorted(units.texts, key=lambda name: len(units.texts[name]), reverse=True)
        first = _compile(library, head, flags, context, folder)(Event())
        if not first.cached and len(rest) > _WORTH_IT:
            _precompile(prefix, flags)
        jobs = [Job(name, _compile(library, name, flags, context, folder), _COMPILE_BYTES) for name in rest]
        batch = build_many(jobs, max(1, context.jobs), _telling(library, context))
    for outcome in batch.outcomes:
        if outcome.error and not isinstance(outcome.error, Interrupted):
            raise outcome.error
    made = {head: first, **{outcome.name: outcome.value for outcome in batch.outcomes if outcome.value is not None}}
    if len(made) < len(units.texts):
        raise Interrupted("the emulator was not built: interrupted", code="B009")
    objects = [made[name] for name in units.texts]
    root = str(context.cache_root)
    inputs = [str(one.path).replace(root, "${cache}", 1) for one in objects]
    text = "// " + "\n// ".join(f"{one.sha256} {name}" for name, one in zip(units.texts, objects, strict=True)) + "\n"
    link = (*_LINK, f"-Wl,-soname,{library.soname}", *inputs)
    return build_cpp(_spec(library, "library", text), context, link, places={"cache": root})


def _precompile(prefix: Path, flags: _Flags) -> None:
    """Compile the prefix once, next to its text, where GCC and clang look for it.

    It makes the other units' compiles a third shorter. Their objects do not depend on it: without it, compilers read the
    text. So a compiler that cannot do it costs time only.
    """
    toolchain = flags.toolchain
    if toolchain is None:
        return
    command = [*toolchain.argv0, *flags.of(toolchain), "-x", "c++-header", prefix.name, "-o", f"{prefix.name}.gch"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(command, cwd=prefix.parent, capture_output=True, check=False, timeout=_SECONDS)


def _telling(library: UnitsLibrary, context: BuildContext) -> Callable[[int, int, Any], None]:
    """Listens to finished units. After the first compiled one it says the library's notice, and from then on how many are done."""
    said = False

    def done(count: int, total: int, outcome: Any) -> None:
        nonlocal said
        if not said and outcome.value is not None and not outcome.value.cached:
            said = True
            context.notify(library.notice.format(count=total))
        if said:
            context.phase(Phase.BUILD, count, total)

    return done


def _compile(
    library: UnitsLibrary, name: str, flags: _Flags, context: BuildContext, prefix: str
) -> Callable[[Event], Artifact]:
    def run(stop: Event) -> Artifact:
        own = BuildContext(
            cache_root=context.cache_root, timeout=context.timeout, notify=context.notify, stop=context.stop or stop
        )
        extra = (library.levels[name],) if name in library.levels else ()
        text = library.units.texts[name]
        return build_cpp(_spec(library, name, text), own, lambda of: (*flags(of), *extra), places={"prefix": prefix})

    return run


def _spec(library: UnitsLibrary, part: str, text: str) -> BuildSpec:
    """A part of the library: one translation unit, or the unit that joins all of them."""
    return BuildSpec(library.kind, f"{library.name}:{part}", library.arch, {"part": part}, text)


class _Flags:
    """The flags of a unit, for the compiler that the build finds.

    Attributes:
        toolchain: the compiler of the latest build; None before the first build.
    """

    def __init__(self, library: UnitsLibrary) -> None:
        self._library = library
        self.toolchain: Toolchain | None = None

    def of(self, toolchain: Toolchain) -> tuple[str, ...]:
        """The flags without the prefix."""
        return (*self._library.flags, *self._library.flags_of[toolchain.kind.value])

    def __call__(self, toolchain: Toolchain) -> tuple[str, ...]:
        self.toolchain = toolchain
        return (*self.of(toolchain), *_INCLUDE)


_FLAGS = ("-c", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-ffp-contract=off", "-pthread", "-w")
"""-ffp-contract=off: a product and a sum round separately, unless the instruction fuses them. -w: GCC 12 warns inside its
own intrinsic headers."""


def emulator_library(
    name: str,
    soname: str,
    arch: str,
    units: Units,
    *,
    level: str = "-O2",
    levels: Mapping[str, str] | None = None,
    flags: tuple[str, ...] = (),
) -> UnitsLibrary:
    """The library of an emulator.

    Args:
        name: of its entries in the cache.
        soname: of the runtime that it stands in for.
        arch: the CPU architecture that executes it.
        level: of optimisation, as compilers spell it.
        levels: those of units that differ, by name. They read the prefix as text: it is compiled at ``level``.
        flags: further ones, that GCC and Clang share.
    """
    return UnitsLibrary(
        name=name,
        kind=BuildKind.EMULATOR,
        soname=soname,
        arch=arch,
        flags=("-std=c++20", level, *_FLAGS, *flags),
        flags_of=load_arch(arch).backends["cpu"]["compile"],
        levels=levels or {},
        units=units,
        notice="building the emulator ({count} files, about a minute on two cores), once for this machine",
    )
