"""Building a null kernel: its name goes into a file, through the same cache as any compiled kernel."""

from __future__ import annotations

import json
from pathlib import Path

from fmha_cli.backends.null_kernels import Behaviour, behaviour_of
from fmha_cli.build.cache import Cache
from fmha_cli.build.key import BuildKey, key_for
from fmha_cli.build.product import BuildError, BuildProduct
from fmha_cli.build.toolchain import Toolchain, ToolchainKind
from fmha_cli.kernel import KernelSpec
from fmha_cli.plan import Artifact
from fmha_cli.protocols import BuildContext

_NO_COMPILER = Toolchain(Path("null"), ToolchainKind.OTHER, "null 1", ("null",), "")
_LOG = "the null backend compiles nothing\n"


def null_key(kernel: KernelSpec) -> BuildKey:
    """The key under which :func:`build_null` keeps a kernel."""
    return key_for(kernel, _text(kernel), (), _NO_COMPILER)


def _text(kernel: KernelSpec) -> str:
    return json.dumps({"kernel": kernel.name})


def build_null(kernel: KernelSpec, context: BuildContext) -> Artifact:
    """The artifact of a null kernel, from the cache or made now.

    Raises:
        KernelFailure: behaviour ``build_error``.
        EnvironmentProblem: the cache is unusable.
    """
    cache = Cache(context.cache_root, notify=lambda notice: context.notify(notice.text))

    def builder(folder: Path) -> BuildProduct:
        artifact, log = folder / "artifact", folder / "log"
        artifact.write_text(_text(kernel), "utf-8")
        log.write_text(_LOG, "utf-8")
        if behaviour_of(kernel) is Behaviour.BUILD_ERROR:
            raise BuildError("planted: behaviour build_error", why="the kernel is meant to fail", log=log)
        return BuildProduct(artifact, log, 0.0)

    return cache.get_or_build(null_key(kernel), builder, context.stop)
