"""What ``fmha doctor`` and ``fmha sources`` report about CK-Tile: the Composable Kernel in use, and the compilers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fmha_cli.backends.ck_tile.revisions import AS_OPTION, HOME_OPTION
from fmha_cli.backends.ck_tile.tree import ck_tree
from fmha_cli.backends.hip.library import check_bindings
from fmha_cli.backends.hip.rocm_parts import rocm_supply
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.installation import (
    NOT_FETCHED,
    Checker,
    DoctorCheck,
    SourceState,
    SourceTree,
    Surroundings,
)
from fmha_cli.toolchain.notice import as_text
from fmha_cli.toolchain.rocm import toolchain as rocm


def source_tree(here: Surroundings) -> SourceTree:
    """The Composable Kernel that kernels would be built against. Nothing is fetched."""
    try:
        tree = ck_tree(
            here.cache_root,
            home=here.options.get(HOME_OPTION),
            taken_as=here.options.get(AS_OPTION),
            offline=True,
            notify=as_text(here.notify),
            environ=here.environ,
        )
    except EnvironmentProblem as error:
        if error.code == "S101":
            fetched = error.where is not None and Path(error.where).exists()
            why = "the pinned source in the cache is damaged" if fetched else NOT_FETCHED
            return SourceTree(state=SourceState.MISSING, why=why, help="fmha sources fetch")
        return SourceTree.unfit(error)
    return SourceTree(
        state=SourceState.PRESENT,
        origin=tree.origin,
        include=str(tree.include),
        revision=tree.revision,
        digest=tree.digest,
        edited=tree.edited,
        notes=tree.notes,
    )


def check_tree(here: Surroundings) -> Iterator[DoctorCheck]:
    """Check the Composable Kernel in use."""
    yield source_tree(here).check("Composable Kernel")


def check_compilers(here: Surroundings) -> Iterator[DoctorCheck]:
    """Check for compilers for AMD GPUs."""
    parts = rocm_supply(here.cache_root, offline=True, looking=True, notify=as_text(here.notify))
    return rocm.check_compilers(here, parts)


def checkers() -> tuple[Checker, ...]:
    """The checks of ``fmha doctor``, in order."""
    return check_tree, check_compilers, check_bindings
