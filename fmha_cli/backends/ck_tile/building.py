"""Build one CK-Tile kernel: its generated text, the HIP compiler, the headers of Composable Kernel, the cache."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.arch import load_arch
from fmha_cli.backends.ck_tile.kernel_rules import refusals
from fmha_cli.build.cache import Cache
from fmha_cli.build.key import BuildKey
from fmha_cli.build.notice import as_text
from fmha_cli.build.rocm.compile import COMPILE_BYTES, build_hip, hip_key
from fmha_cli.build.rocm.toolchain import RocmToolchain, find_rocm
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm
from fmha_cli.codegen.ck_tile.emit import emit
from fmha_cli.codegen.ck_tile.refusals import no_emitter
from fmha_cli.kernel import Family, KernelSpec
from fmha_cli.plan import Artifact
from fmha_cli.protocols import BuildContext
from fmha_cli.rules import unbuildable
from fmha_cli.sources.ck import BASELINE, HOME_OPTION, CkTree, ck_tree
from fmha_cli.sources.rocm_parts import rocm_supply

COMPILER_OPTION = "compiler"
"""Entry of ``BuildContext.options``: a HIP compiler in place of FMHA_HIPCC."""

BACKWARD_BYTES = 1500 * 2**20
"""Memory of compiling dQ, dK and dV in one kernel: up to 1.2 GB in the build matrix, with room for larger ones."""


@dataclass(frozen=True)
class Workshop:
    """What every kernel is built with: the cache, the compiler, and the tree of Composable Kernel."""

    cache: Cache
    toolchain: RocmToolchain
    tree: CkTree

    @property
    def headers(self) -> Mapping[str, tuple[Path, str]]:
        """Name -> folder and digest of the headers that the text includes."""
        return {"ck": (self.tree.include, self.tree.digest)}


def workshop(context: BuildContext) -> Workshop:
    """Compiler and sources, unless the context brings them; what is missing of the pinned sources is fetched.

    Raises:
        EnvironmentProblem: no compiler, no sources, or an unusable cache.
    """
    if isinstance(context.prepared, Workshop):
        return context.prepared
    speak = as_text(context.notify)
    root = context.cache_root
    tree = ck_tree(root, home=context.options.get(HOME_OPTION), offline=context.offline, notify=speak)
    environ = dict(os.environ)
    if COMPILER_OPTION in context.options:
        environ["FMHA_HIPCC"] = context.options[COMPILER_OPTION]
    toolchain = find_rocm(
        root,
        parts=rocm_supply(root, offline=context.offline, notify=speak),
        notify=speak,
        environ=environ,
    )
    return Workshop(Cache(root, notify=speak), toolchain, tree)


def build_ck(kernel: KernelSpec, context: BuildContext) -> Artifact:
    """The library of a kernel, from the cache or compiled now.

    Raises:
        UnsupportedError: a kernel rule refuses it; nothing is compiled.
        EnvironmentProblem: another revision of CK has it (B040), no compiler, or no sources.
        KernelFailure: it does not compile.
    """
    key, shop = _prepared(kernel, context)
    return build_hip(
        shop.cache, key, shop.toolchain, headers=shop.headers, timeout=context.timeout, cancel=context.stop
    )


def ck_key(kernel: KernelSpec, context: BuildContext) -> BuildKey:
    """The key under which :func:`build_ck` keeps the kernel. Raises likewise, short of compiling."""
    return _prepared(kernel, context)[0]


def compile_bytes(kernel: KernelSpec) -> int:
    """Memory that compiling a kernel may take."""
    return BACKWARD_BYTES if kernel.family is Family.BWD_DQ_DK_DV else COMPILE_BYTES


def _prepared(kernel: KernelSpec, context: BuildContext) -> tuple[BuildKey, Workshop]:
    _require_buildable(kernel)
    shop = workshop(context)
    key = hip_key(kernel, emit(kernel), shop.toolchain, load_arch(kernel.arch), headers=shop.headers)
    return key, shop


def _require_buildable(kernel: KernelSpec) -> None:
    """Nothing that a rule refuses, and nothing that the sources do not have, is ever compiled.

    ``ck_tree`` gives baseline trees only, so a kernel of a later revision needs no look at the sources.
    """
    algorithm = kernel.algorithm
    assert isinstance(algorithm, CkAlgorithm)
    if algorithm.rev != BASELINE:
        raise no_emitter(kernel)
    reasons = refusals(kernel)
    if reasons:
        raise unbuildable(kernel, reasons)
