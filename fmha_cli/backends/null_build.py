"""Building a null kernel: its name goes into a file, through the same cache as any compiled kernel."""

from __future__ import annotations

import json
from pathlib import Path

from fmha_cli.backends.null_kernels import Behaviour, behaviour_of
from fmha_cli.build.cache import Cache
from fmha_cli.build.key import key_for
from fmha_cli.build.product import BuildError, BuildProduct
from fmha_cli.build.toolchain import Toolchain, ToolchainKind
from fmha_cli.kernel import KernelSpec
from fmha_cli.plan import Artifact
from fmha_cli.protocols import BuildContext

_NO_COMPILER = Toolchain(Path("null"), ToolchainKind.OTHER, "null 1", ("null",), "")
_LOG = "the null backend compiles nothing\n"


def build_null(kernel: KernelSpec, context: BuildContext) -> Artifact:
    """The artifact of a null kernel, from the cache or made now.

    Raises:
        KernelFailure: behaviour ``build_error``.
        EnvironmentProblem: the cache is unusable.
    """
    cache = Cache(context.cache_root, notify=lambda notice: context.notify(notice.text))
    text = json.dumps({"kernel": kernel.name})

    def builder(folder: Path) -> BuildProduct:
        artifact, log = folder / "artifact", folder / "log"
        artifact.write_text(text, "utf-8")
        log.write_text(_LOG, "utf-8")
        if behaviour_of(kernel) is Behaviour.BUILD_ERROR:
            raise BuildError("planted: behaviour build_error", why="the kernel is meant to fail", log=log)
        return BuildProduct(artifact, log, 0.0)

    return cache.get_or_build(key_for(kernel, text, (), _NO_COMPILER), builder, context.stop)
