"""Building the upstream example programs for the kernels that a set of cases needs.

The cache keeps objects below ``upstream/objects``, under a digest of everything that decides their content. A stopped
build can therefore continue, and suites share kernels. A program is linked to the HIP runtime if one is found. If not,
its HIP symbols stay undefined, and it needs a runtime (or a stand-in) that is loaded before it.
"""

from __future__ import annotations

import ctypes.util
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event

from fmha_cli.backends.ck_tile.parity.case import BINARIES
from fmha_cli.backends.ck_tile.parity.generating import Listed, generate
from fmha_cli.backends.ck_tile.tree import CkTree
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.counterpart import Program, Progress
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.errors import Interrupted, KernelFailure
from fmha_cli.toolchain.cache.files import as_environment_problem, make_private_dir, remove_tree
from fmha_cli.toolchain.cache.key import expand_places
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.root import open_root
from fmha_cli.toolchain.cache.store import BuildError
from fmha_cli.toolchain.cpp.compile import compile_library, first_error_line
from fmha_cli.toolchain.cpp.headers import tree_digest
from fmha_cli.toolchain.parallel import Job, build_many
from fmha_cli.toolchain.process import TimeLimits, compiler_environment, run_group
from fmha_cli.toolchain.rocm.candidates import RocmToolchain
from fmha_cli.toolchain.rocm.compile import COMPILE_BYTES, hip_places, kernel_flags, words
from fmha_cli.toolchain.rocm.installed import installed_roots, runtimes

ROOM = "upstream"
"""Below the cache root: ``objects/<digest>.o`` and ``bin/<digest>/``."""

MAIN_BYTES = 3 * 2**30
"""Memory that compiling a program's own file is assumed to need."""

BUILTINS = Path(__file__).with_name("host_builtins.cpp")
"""Functions that the compiler calls on the host and that an older libgcc lacks."""

_SCHEMA = 1
_OPEN = re.compile(r"undefined symbol: (\S+)")
_HIP = re.compile(r"(__)?hip[A-Z]")


@dataclass(frozen=True)
class Linked:
    """A program that was built.

    Attributes:
        runtime: the HIP runtime it was linked to; None if none was found.
        compiled: number of objects that were compiled now.
        kept: number of objects that came from the cache.
    """

    path: Path
    runtime: Path | None
    compiled: int
    kept: int


@dataclass(frozen=True, kw_only=True)
class ProgramWorkshop:
    """The tools and limits of a build.

    Attributes:
        jobs: number of compilers that run at once.
        timeout: seconds for one compiler.
    """

    cache_root: Path
    tree: CkTree
    toolchain: RocmToolchain
    arch: ArchSpec
    jobs: int = 1
    timeout: float = 1800.0

    @property
    def example(self) -> Path:
        assert self.tree.example is not None  # the caller chose a tree with the examples
        return self.tree.example

    @property
    def layout(self) -> CacheLayout:
        return open_root(self.cache_root)


def build_program(needs: Listed, shop: ProgramWorkshop, into: Path | None, progress: Progress) -> Linked:
    """One program, with exactly the needed kernels, as ``into`` or in the cache.

    Raises:
        EnvironmentProblem: Y010, the generator fails; the cache cannot be written.
        KernelFailure: Y011, a file does not compile; Y012, the program does not link. Both name the log.
        Interrupted: Ctrl-C; compiled objects are kept.
    """
    work = shop.layout.new_tmp()
    try:
        with as_environment_problem("building the upstream programs"):
            make_private_dir(work / "generated")
            generated = generate(shop.tree.generator or shop.example, needs, work / "generated")
            units = [*generated, shop.example / f"example_fmha_{needs.program.value}.cpp", BUILTINS]
            objects, compiled = _compile_all(units, needs, shop, work, progress)
            return _link(objects, needs, shop, into, work, compiled)
    finally:
        remove_tree(work)


def unit_flags(needs: Listed, unit: Path, shop: ProgramWorkshop) -> tuple[str, ...]:
    """The compiler flags of one file. The program's own file also gets the APIs that it may call.

    Source: ``example/ck_tile/01_fmha/CMakeLists.txt``, ``FMHA_FWD_INTERFACE_COMPILE_OPTIONS``.
    """
    if unit == BUILTINS:
        return ("-x", "c++", "-std=c++20", "-O2", "-c", "-fPIC")
    family = "bwd" if needs.program is Program.BWD else "fwd"
    # All units are compiled under one file name, from which the compiler would derive one id for all of them.
    unique = digest_of([unit.stem])[:16]
    flags = ["-x", "hip", f"--offload-arch={shop.arch.name}", "--rocm-path=${rocm}", "-c", "-fPIC", f"-cuid={unique}"]
    flags += words(kernel_flags(family, shop.toolchain.options))
    if unit.stem.endswith("_api"):  # beside its kernels, the generator writes what calls them, which has no kernel
        flags += ["--cuda-host-only"]
    if unit.parent == shop.example and needs.program is Program.FWD:
        switches = {"SPLITKV": "fwd_splitkv", "APPENDKV": "fwd_appendkv", "PAGEDKV": "pagedkv_prefill"}
        flags += [f"-DCK_TILE_FMHA_FWD_{name}_API={int(api in needs.apis)}" for name, api in switches.items()]
    places = ("example", "ck")
    return (*flags, *(word for name in places for word in (f"-I${{{name}}}", f"-ffile-prefix-map=${{{name}}}={name}")))


def _compile_all(
    units: Sequence[Path], needs: Listed, shop: ProgramWorkshop, work: Path, progress: Progress
) -> tuple[list[Path], int]:
    shelf = shop.layout.root / ROOM / "objects"
    make_private_dir(shelf)
    trees = (shop.tree.digest, tree_digest(shop.example, ("*.hpp",)))
    places = {unit: shelf / f"{_digest(unit, needs, shop, trees)}.o" for unit in units}
    todo = [unit for unit, place in places.items() if not place.is_file()]
    todo.sort(key=lambda unit: unit.parent != shop.example)  # the largest first: the program itself
    jobs = [
        Job(
            unit.stem,
            partial(_compile, unit, places[unit], needs, shop, work / f"unit{number}"),
            MAIN_BYTES if unit.parent == shop.example else COMPILE_BYTES,
        )
        for number, unit in enumerate(todo)
    ]
    batch = build_many(jobs, shop.jobs, lambda done, total, outcome: progress(done, total, outcome.name))
    if batch.interrupted:
        raise Interrupted("interrupted while the upstream programs were built; what was compiled is kept", code="B009")
    for outcome in batch.outcomes:
        if outcome.error is not None:
            raise outcome.error
    return list(places.values()), len(todo)


def _digest(unit: Path, needs: Listed, shop: ProgramWorkshop, trees: tuple[str, ...]) -> str:
    tool = shop.toolchain
    about = [tool.identity, tool.version, tool.headers_digest]
    return digest_of([_SCHEMA, unit.read_text("utf-8"), unit_flags(needs, unit, shop), about, trees])


def _compile(unit: Path, place: Path, needs: Listed, shop: ProgramWorkshop, work: Path, stop: Event) -> Path:
    """Compile one object, and move it to its place when it is complete. Raises KernelFailure: Y011."""
    make_private_dir(work)
    out, log = work / "object.o", work / "build.log"
    places = hip_places(shop.toolchain, {"example": shop.example, "ck": shop.tree.include})
    flags = expand_places(unit_flags(needs, unit, shop), places)
    kept = place.with_suffix(".log")
    try:
        compile_library(shop.toolchain, unit.read_text("utf-8"), flags, out, shop.timeout, log, stop)
    except BuildError as fault:
        os.replace(log, kept)
        what = f"{unit.name} did not compile: {fault.summary}"
        raise KernelFailure(what, code="Y011", where=str(kept), why=fault.why) from fault
    os.replace(log, kept)
    os.replace(out, place)
    return place


def find_runtime(toolchain: RocmToolchain, environ: Mapping[str, str]) -> Path | None:
    """The HIP runtime to link to: the toolchain's, an installed ROCm's, or one that the loader knows."""
    for root in (toolchain.rocm_path, *installed_roots(environ)):
        found = runtimes(root)
        if found:
            return found[0]
    known = ctypes.util.find_library("amdhip64")
    return Path(known) if known else None


def link_flags(runtime: Path | None) -> tuple[str, ...]:
    """The linker's options: the runtime, with its folder on the program's path, or permission for undefined symbols."""
    if runtime is None:
        return ("-Wl,--warn-unresolved-symbols", "-Wl,-z,lazy")
    if runtime.parent == Path():
        return (f"-l:{runtime}",)
    return (str(runtime), f"-Wl,-rpath,{runtime.parent}")


def _link(
    objects: Sequence[Path], needs: Listed, shop: ProgramWorkshop, into: Path | None, work: Path, compiled: int
) -> Linked:
    runtime = find_runtime(shop.toolchain, os.environ)
    flags = link_flags(runtime)
    name = BINARIES[needs.program]
    home = into
    if home is None:
        home = shop.layout.root / ROOM / "bin" / digest_of([_SCHEMA, [o.name for o in objects], flags])[:16]
        make_private_dir(home)
    home.mkdir(parents=True, exist_ok=True)
    made, log, limits = work / name, home / f"{name}.link.log", TimeLimits.of_compile(shop.timeout)
    command = [*shop.toolchain.argv0, "-fuse-ld=lld", *map(str, objects), *flags, "-o", str(made)]
    with log.open("wb") as stream:
        ended = run_group(command, cwd=work, env=compiler_environment(work), output=stream, limits=limits)
    text = log.read_text("utf-8", "replace")
    # Only HIP's symbols may stay undefined. Any other would stop the program in the middle of a case.
    lacking = sorted({symbol for symbol in _OPEN.findall(text) if not _HIP.match(symbol)})
    if ended.returncode or not made.is_file() or lacking:
        why = f"undefined: {', '.join(lacking)}" if lacking else first_error_line(text)
        why = why or f"exit status {ended.returncode}"
        raise KernelFailure(f"{name} does not link", code="Y012", where=str(log), why=why)
    log.unlink()
    whole = home / f".{name}.new"
    shutil.copy2(made, whole)  # the folder may be on another file system than the cache
    os.replace(whole, home / name)
    return Linked(home / name, runtime, compiled, len(objects) - compiled)
