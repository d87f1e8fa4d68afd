"""Build a thing with a program that a plugin brings, through the cache: a compiler without its own family here.

The program is started as ``ARGV0 FLAGS... source.cpp -o artifact`` in an empty folder, whatever the language of the source is. It
writes its result there, and may write ``kernel.ptx`` next to it. It runs as a child, so a compiler that aborts costs
one build.
"""

from __future__ import annotations

from collections.abc import Sequence

from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.toolchain.cache.key import BuildKey, BuildSpec, key_for
from fmha_cli.toolchain.cache.store import Cache
from fmha_cli.toolchain.cpp.library import build_kernel
from fmha_cli.toolchain.cpp.toolchain import Compiler
from fmha_cli.toolchain.notice import as_text


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
