"""Kernels as builds: the one place that makes the cache's values from kernels.

A plugin may bring a compiler without its own family here, as a program (``build_by_program``). It is started as ``ARGV0 FLAGS...
source.cpp -o artifact`` in an empty folder, whatever the language of the source is. It writes its result there, and may write
``kernel.ptx`` next to it. It runs as a child, so a compiler that aborts costs one build.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.encode import canonical_json
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Artifact, Stage
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.toolchain.cache.key import BuildKey, BuildKind, BuildSpec, key_for
from fmha_cli.toolchain.cache.layout import ARTIFACT, LOG
from fmha_cli.toolchain.cache.store import BuildError, BuildProduct, Cache
from fmha_cli.toolchain.cpp.library import build_kernel
from fmha_cli.toolchain.cpp.toolchain import Compiler, Toolchain, ToolchainKind
from fmha_cli.toolchain.notice import as_text

_NO_COMPILER = Toolchain(argv0=("none",), version="none", headers_digest="", kind=ToolchainKind.OTHER)
_LOG = "nothing was compiled\n"


def kernel_build(kernel: KernelSpec, source: str) -> BuildSpec:
    """The build of a kernel from the source text that was emitted for it."""
    return BuildSpec(BuildKind.KERNEL, kernel.name, kernel.arch, to_json(kernel), source)


def no_build_key(stage: Stage) -> BuildKey:
    """The cache key under which :func:`no_build` keeps a stage, for ``Keyed.cache_key``."""
    text = canonical_json({"kernel": stage.kernel.name})
    return key_for(kernel_build(stage.kernel, text), (), _NO_COMPILER)


def no_build(stage: Stage, context: BuildContext, *, failure: str | None = None) -> Artifact:
    """The artifact of a kernel that needs no compiler, such as one that a framework provides or compiles itself.

    The cache treats it like any other: ``fmha cache`` lists, verifies, prunes and exports it. Its file is
    the JSON text ``{"kernel": NAME}`` with the kernel's canonical name.

    Args:
        failure: why the kernel does not work on this machine, in one line; the cache then keeps a failed build with
            that log.

    Raises:
        KernelFailure: ``failure`` was given.
        EnvironmentProblem: the cache is unusable.
        Interrupted: ``context.stop`` was set.
    """
    key = no_build_key(stage)

    def builder(work: Path) -> BuildProduct:
        if failure is not None:
            raise BuildError(failure, why="the backend refused the kernel", log=None)
        return _keep(work, key.spec.source_bytes)

    return Cache(context.cache_root, notify=as_text(context.notify)).get_or_build(key, builder, context.stop)


def copy_key(kernel: KernelSpec, source: str, path: str) -> BuildKey:
    """The key under which :func:`copy_build` keeps a kernel, for ``Keyed.cache_key``.

    Args:
        source: the digest of the source that holds the file.
        path: the file's, in that source.
    """
    text = canonical_json({"kernel": kernel.name, "source": source, "path": path})
    return key_for(kernel_build(kernel, text), (), _NO_COMPILER)


def copy_build(key: BuildKey, file: Callable[[], Path], context: BuildContext) -> Artifact:
    """The artifact of a kernel that its project has published as a file: a copy of that file.

    Args:
        file: returns the file of a source whose bytes have been verified. It is asked where the cache has no copy.

    Raises:
        EnvironmentProblem: what ``file`` raises, or the cache is unusable.
        Interrupted: ``context.stop`` was set.
    """
    cache = Cache(context.cache_root, notify=as_text(context.notify))
    return cache.get_or_build(key, lambda work: _keep(work, file().read_bytes()), context.stop)


def _keep(work: Path, content: bytes) -> BuildProduct:
    (work / ARTIFACT).write_bytes(content)
    (work / LOG).write_text(_LOG, "utf-8")
    return BuildProduct(work / ARTIFACT, work / LOG, 0.0)


def program_key(spec: BuildSpec, compiler: Compiler, flags: Sequence[str] = ()) -> BuildKey:
    """The key under which :func:`build_by_program` keeps its result, for ``Keyed.cache_key``."""
    return key_for(spec, flags, compiler)


def build_by_program(spec: BuildSpec, compiler: Compiler, context: BuildContext, flags: Sequence[str] = ()) -> Artifact:
    """The output of a program for a source text, from the cache or made now.

    Args:
        compiler: the program. Its version must name everything that decides its output; environment variables that
            decide it too must be cleared by the program itself.

    Raises:
        KernelFailure: the program failed, was killed or ran out of time; the full log is kept and named.
        EnvironmentProblem: the program cannot be started, or the cache cannot be used.
        Interrupted: ``context.stop`` was set.
    """
    cache = Cache(context.cache_root, notify=as_text(context.notify, context.phase))
    key = program_key(spec, compiler, flags)
    return build_kernel(cache, key, compiler, timeout=context.timeout, cancel=context.stop)
