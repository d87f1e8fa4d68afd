"""Build one CPU kernel through the cache."""

from __future__ import annotations

from fmha_cli.arch import load_arch
from fmha_cli.backends.cpu.flags import compile_flags
from fmha_cli.build.cache import Cache
from fmha_cli.build.find import find_toolchain
from fmha_cli.build.kernel_build import build_kernel
from fmha_cli.build.key import BuildKey, key_for
from fmha_cli.build.notice import as_text
from fmha_cli.build.toolchain import Toolchain
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.faults import Fault
from fmha_cli.kernel import KernelSpec
from fmha_cli.plan import Artifact
from fmha_cli.protocols import BuildContext


def build_cpu(kernel: KernelSpec, context: BuildContext, fault: Fault | None = None) -> Artifact:
    """The library of a kernel, from the cache or compiled now.

    Args:
        fault: a planted fault (tests only); the cache keeps such a build apart, because its source differs.

    Raises:
        KernelFailure: it does not compile.
        EnvironmentProblem: no compiler, or the cache is unusable.
    """
    cache, toolchain, key = _prepared(kernel, context, fault)
    return build_kernel(cache, key, toolchain, timeout=context.timeout, cancel=context.stop)


def cpu_key(kernel: KernelSpec, context: BuildContext) -> BuildKey:
    """The key under which :func:`build_cpu` keeps the kernel.

    Raises:
        EnvironmentProblem: no compiler, or the cache is unusable.
    """
    return _prepared(kernel, context, None)[2]


def _prepared(kernel: KernelSpec, context: BuildContext, fault: Fault | None) -> tuple[Cache, Toolchain, BuildKey]:
    speak = as_text(context.notify)
    cache = Cache(context.cache_root, notify=speak)
    toolchain = find_toolchain(cache.layout, speak)
    flags = compile_flags(load_arch(kernel.arch), toolchain.kind)
    return cache, toolchain, key_for(kernel, emit(kernel, fault), flags, toolchain)
