"""Build one CPU kernel through the cache."""

from __future__ import annotations

from fmha_cli.arch import load_arch
from fmha_cli.backends.cpu.flags import compile_flags
from fmha_cli.build.cache import Cache
from fmha_cli.build.find import find_toolchain
from fmha_cli.build.kernel_build import build_kernel
from fmha_cli.build.key import key_for
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
    cache = Cache(context.cache_root, notify=lambda notice: context.notify(notice.text))
    toolchain = find_toolchain(cache.layout, lambda notice: context.notify(notice.text))
    flags = compile_flags(load_arch(kernel.arch), toolchain.kind)
    key = key_for(kernel, emit(kernel, fault), flags, toolchain)
    return build_kernel(cache, key, toolchain, timeout=context.timeout, cancel=context.stop)
