"""Build a C++ text through the cache, with the compiler that works here or with a given one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.toolchain.cache.files import as_environment_problem
from fmha_cli.toolchain.cache.key import BuildKey, BuildKind, BuildSpec, expand_places, key_for
from fmha_cli.toolchain.cache.layout import ARTIFACT, LOG, PTX
from fmha_cli.toolchain.cache.store import BuildError, BuildProduct, Cache
from fmha_cli.toolchain.cpp.compile import compile_library
from fmha_cli.toolchain.cpp.find import ANY, toolchain_for
from fmha_cli.toolchain.cpp.toolchain import Compiler, Toolchain
from fmha_cli.toolchain.notice import as_text

BUILD_TIMEOUT_S = 600.0
"""Default limit of one compile, in seconds of processor time."""

PORTABLE_FLAGS = ("-std=c++17", "-O3", "-fPIC", "-shared")
"""Flags that every supported compiler takes."""

_STANDIN_FLAGS = ("-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden")

Flags = Sequence[str] | Callable[[Toolchain], Sequence[str]]
"""All flags in order, or a function that chooses them for the compiler that was found."""


def build_cpp(
    spec: BuildSpec,
    context: BuildContext,
    flags: Flags = PORTABLE_FLAGS,
    places: Mapping[str, str] | None = None,
    machine: str = ANY,
) -> Artifact:
    """The shared library of a C++ text, from the cache or compiled now by whatever compiler works here.

    Args:
        spec: the thing to build; its source is C++.
        places: the folder that each ``${name}`` in the flags means on this machine; not part of the key.
        machine: the instruction set of the machine that runs it, as :func:`toolchain_for` takes it.

    Raises:
        KernelFailure: it does not compile; the full log is kept and named.
        EnvironmentProblem: no compiler works here, or the cache cannot be used.
        Interrupted: ``context.stop`` was set.
    """
    cache, toolchain, key = _prepare(spec, context, flags, machine)
    return build_kernel(cache, key, toolchain, timeout=context.timeout, cancel=context.stop, places=places)


def cpp_key(spec: BuildSpec, context: BuildContext, flags: Flags = PORTABLE_FLAGS, machine: str = ANY) -> BuildKey:
    """The key under which :func:`build_cpp` keeps its result.

    Raises:
        EnvironmentProblem: no compiler works here, or the cache cannot be used.
    """
    return _prepare(spec, context, flags, machine)[2]


def _prepare(spec: BuildSpec, context: BuildContext, flags: Flags, machine: str) -> tuple[Cache, Toolchain, BuildKey]:
    notify = as_text(context.notify, context.phase)
    cache = Cache(context.cache_root, notify=notify)
    toolchain = toolchain_for(machine, cache.layout, notify)
    return cache, toolchain, key_for(spec, flags(toolchain) if callable(flags) else flags, toolchain)


def build_standin_library(backend: str, library: str, source: str, context: BuildContext) -> Artifact:
    """A library that stands in for a device's runtime under the runtime's own name.

    Args:
        backend: the backend whose kernels it watches.
        library: the real library's soname. A program that opens that name afterwards gets the one already loaded.
        source: its C++ text.

    Raises:
        KernelFailure: it does not compile.
        EnvironmentProblem: no C++ compiler, or the cache is unusable.
    """
    identity = {"backend": backend, "library": library}
    spec = BuildSpec(BuildKind.HOST_LIBRARY, f"{backend}:standin:{library}", "generic", identity, source)
    return build_cpp(spec, context, (*_STANDIN_FLAGS, f"-Wl,-soname,{library}"))


def build_kernel(
    cache: Cache,
    key: BuildKey,
    toolchain: Compiler,
    *,
    timeout: float = BUILD_TIMEOUT_S,
    cancel: threading.Event | None = None,
    places: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    settled: Callable[[], None] = lambda: None,
    accept: Callable[[Path], None] = lambda work: None,
) -> Artifact:
    """The shared library of a key, from the cache or compiled now.

    Args:
        toolchain: the one that the key names.
        timeout: seconds of processor time for the compiler (``Limits.of_compile``).
        cancel: when set, the compiler is killed.
        places: the folder that each ``${name}`` in the key's flags means on this machine.
        files: files next to the text that it includes, name -> content. The key must determine them.
        settled: called after a compile, before its result is kept; raises if the compiled code does not match the key.
        accept: called with the folder of the result and its log before it is kept; raises if it is not worth keeping.

    Raises:
        ValueError: the key was made for another toolchain.
        KernelFailure: the compiler failed or ran out of time.
        EnvironmentProblem: the compiler cannot be started, or the cache cannot be written.
        Interrupted: ``cancel`` was set.
    """
    made_for = (key.toolchain_path, key.toolchain_version)
    if made_for != (toolchain.identity, toolchain.version):
        raise ValueError(f"the key of {key.spec.name} was made for {key.toolchain_path}, not {toolchain.identity}")

    def builder(work: Path) -> BuildProduct:
        log, ptx = work / LOG, work / PTX
        flags = expand_places(key.flags, places or {})
        with as_environment_problem("preparing a compile"):
            for name, text in (files or {}).items():
                (work / name).write_text(text, "utf-8")
        try:
            made = compile_library(toolchain, key.spec.source, flags, work / ARTIFACT, timeout, log, cancel)
        except BuildError:
            settled()  # a failure of sources that were half saved is none of this key
            raise
        settled()
        accept(work)
        return replace(made, ptx=ptx if ptx.is_file() else None)

    return cache.get_or_build(key, builder, cancel)
