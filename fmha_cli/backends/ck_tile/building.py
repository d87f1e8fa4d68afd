"""Build one CK-Tile kernel from its generated text, the HIP compiler and Composable Kernel's headers, or the cache."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

from fmha_cli.backends.ck_tile.kernel_rules import refusals
from fmha_cli.backends.ck_tile.revisions import AS_OPTION, BASELINE, HOME_OPTION, NAME
from fmha_cli.backends.ck_tile.tree import CkTree, ck_tree
from fmha_cli.backends.hip.rocm_parts import rocm_supply
from fmha_cli.codegen.ck_tile.algorithm import algorithm_of, no_emitter
from fmha_cli.codegen.ck_tile.emit import emit
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Artifact, Stage
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.domain.rules import unbuildable
from fmha_cli.toolchain.cache.key import BuildKey
from fmha_cli.toolchain.cache.store import Cache
from fmha_cli.toolchain.cpp.library import build_kernel, build_standin_library
from fmha_cli.toolchain.notice import as_text
from fmha_cli.toolchain.rocm.candidates import RocmToolchain
from fmha_cli.toolchain.rocm.compile import COMPILE_BYTES, hip_key, hip_places
from fmha_cli.toolchain.rocm.installed import RUNTIME
from fmha_cli.toolchain.rocm.toolchain import find_rocm

COMPILER_OPTION = "compiler"
"""Entry of ``BuildContext.options``: the HIP compiler to use instead of FMHA_HIPCC."""

BACKWARD_BYTES = 1500 * 2**20
"""Memory to compile a kernel of dQ, dK and dV. The build matrix shows up to 1.2 GB; the rest is a margin."""


@dataclass(frozen=True)
class CkWorkshop:
    """The cache, the compiler and the Composable Kernel tree that every build uses."""

    cache: Cache
    toolchain: RocmToolchain
    tree: CkTree

    @property
    def headers(self) -> Mapping[str, tuple[Path, str]]:
        """Name -> folder and digest of the headers that the generated text includes."""
        return {"ck": (self.tree.include, self.tree.digest)}


def require_sources(revision: str, context: BuildContext) -> None:
    """Refuse to fetch the pinned source for a revision that it does not hold.

    Raises:
        EnvironmentProblem: B040, another revision than the baseline, and the user names no tree.
    """
    if revision != BASELINE and HOME_OPTION not in context.options:
        raise EnvironmentProblem(
            f"kernels of CK revision {revision} cannot be built: no package carries its sources",
            code="B040",
            where="--ck-rev",
            why=f"the pinned source is the {BASELINE} revision",
            help=f"--{HOME_OPTION} DIR names a tree; without --ck-rev the {BASELINE} revision is built",
        )


def workshop(context: BuildContext) -> CkWorkshop:
    """The context's prepared workshop, or a new one. Missing pinned sources are fetched.

    Raises:
        EnvironmentProblem: no compiler, no sources, or an unusable cache.
    """
    if isinstance(context.prepared, CkWorkshop):
        return context.prepared
    speak = as_text(context.notify, context.phase)
    root = context.cache_root
    home, taken_as = (context.options.get(option) for option in (HOME_OPTION, AS_OPTION))
    tree = ck_tree(root, home=home, taken_as=taken_as, offline=context.offline, notify=speak)
    environ = dict(os.environ)
    if COMPILER_OPTION in context.options:
        environ["FMHA_HIPCC"] = context.options[COMPILER_OPTION]
    toolchain = find_rocm(
        root,
        parts=rocm_supply(root, offline=context.offline, notify=speak),
        notify=speak,
        environ=environ,
    )
    return CkWorkshop(Cache(root, notify=speak), toolchain, tree)


def build_ck(stage: Stage, context: BuildContext) -> Artifact:
    """The library of a stage's kernel, from the cache or compiled now.

    Raises:
        UnsupportedError: a kernel rule refuses the kernel; nothing is compiled.
        EnvironmentProblem: only another revision of CK has the kernel (B040), no compiler, no sources, or sources that
            changed meanwhile (S107).
        KernelFailure: the kernel does not compile.
    """
    key, shop = _prepare(stage.kernel, context)
    home = shop.tree.home
    places = hip_places(shop.toolchain, {name: folder for name, (folder, _) in shop.headers.items()})
    made = build_kernel(
        shop.cache,
        key,
        shop.toolchain,
        places=places,
        timeout=context.timeout,
        cancel=context.stop,
        settled=lambda: None if home is None else home.require_same(shop.cache.layout, str(shop.tree.include)),
    )
    return replace(made, edited=shop.tree.edited)


def ck_key(stage: Stage, context: BuildContext) -> BuildKey:
    """The cache key that :func:`build_ck` uses. Raises the same errors, except for compile failures."""
    return _prepare(stage.kernel, context)[0]


def build_recorder(context: BuildContext) -> Artifact:
    """A library that names the kernel of a launch, for dry runs. Raises what ``build_standin_library`` raises."""
    text = resources.files("fmha_cli.backends.ck_tile").joinpath("launched.cpp").read_text("utf-8")
    return build_standin_library(NAME, RUNTIME, text, context)


def compile_bytes(kernel: KernelSpec) -> int:
    """Memory that compiling a kernel may take."""
    return BACKWARD_BYTES if kernel.family is Family.BWD_DQ_DK_DV else COMPILE_BYTES


def _prepare(kernel: KernelSpec, context: BuildContext) -> tuple[BuildKey, CkWorkshop]:
    """The key of a kernel that no rule refuses, and the workshop.

    ``ck_tree`` returns trees that are built by the baseline's rules only, so a kernel of a later revision is refused without
    looking at the sources.
    """
    if algorithm_of(kernel).rev != BASELINE:
        raise no_emitter(kernel)
    reasons = refusals(kernel)
    if reasons:
        raise unbuildable(kernel, reasons)
    shop = workshop(context)
    return hip_key(kernel, emit(kernel), shop.toolchain, load_arch(kernel.arch), headers=shop.headers), shop
