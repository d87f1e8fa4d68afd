"""Build a stage from C++ text with whatever compiler works here: the one call that a C++ backend needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fmha_cli.build.cache import Cache
from fmha_cli.build.find import find_toolchain
from fmha_cli.build.kernel_build import build_kernel
from fmha_cli.build.key import key_for
from fmha_cli.build.notice import as_text
from fmha_cli.build.toolchain import Toolchain
from fmha_cli.kernel import KernelSpec
from fmha_cli.plan import Artifact
from fmha_cli.protocols import BuildContext

PORTABLE_FLAGS = ("-std=c++17", "-O3", "-fPIC", "-shared")
"""Flags that every supported compiler takes."""


def build_cpp(
    kernel: KernelSpec,
    source: str,
    context: BuildContext,
    flags: Sequence[str] | Callable[[Toolchain], Sequence[str]] = PORTABLE_FLAGS,
    places: Mapping[str, str] | None = None,
) -> Artifact:
    """The shared library of a kernel's C++ text, from the cache or compiled now.

    Args:
        flags: all of them in order, or a function that chooses them for the compiler that was found.
        places: what ``${name}`` in the flags stands for on this machine; it is no part of the key.

    Raises:
        KernelFailure: it does not compile; the full log is kept and named.
        EnvironmentProblem: no compiler works here, or the cache cannot be used.
        Interrupted: ``context.stop`` was set.
    """

    speak = as_text(context.notify)
    cache = Cache(context.cache_root, notify=speak)
    toolchain = find_toolchain(cache.layout, speak)
    chosen = flags(toolchain) if callable(flags) else flags
    key = key_for(kernel, source, chosen, toolchain)
    return build_kernel(cache, key, toolchain, timeout=context.timeout, cancel=context.stop, places=places)
