"""Golden texts of the CK-Tile generator: one kernel for each family, architecture and pipeline.

A file holds the parts that are specific to the kernel: types, checks, arguments and grid. The digest of the whole text
pins the parts that all texts share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from itertools import product

from fmha_cli.backends.ck_tile.catalogue import family_kernels
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm
from fmha_cli.codegen.ck_tile.emit import emit, unit_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import Family, KernelSpec
from tests.support.golden.units import most_features
from tests.support.paths import ROOT

GOLDEN = ROOT / "tests" / "golden" / "ck_tile"
ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1201")
DIGESTS = "digests.json"
_SHARED_AGAIN = "// Names of the members"


@cache
def golden_kernels(archs: tuple[str, ...] = ARCHS) -> dict[str, KernelSpec]:
    """File name -> kernel: the one of each kind with the most features."""
    return most_features(_named(archs), ("no", "none"))


def _named(archs: tuple[str, ...]) -> Iterator[tuple[str, KernelSpec]]:
    for arch, family in product(archs, Family):
        for kernel in family_kernels(load_arch(arch), family):
            algorithm = kernel.algorithm
            assert isinstance(algorithm, CkAlgorithm)
            yield f"{family.value}-{arch}-{algorithm.pipeline.value}.hip", kernel


def own_text(kernel: KernelSpec) -> str:
    """The part of the text that belongs to this kernel alone, after its name."""
    text = emit(kernel)
    start, end = text.index(unit_of(kernel).types.rstrip()), text.index(_SHARED_AGAIN)
    return f"// {kernel.name}\n\n" + text[start:end].strip() + "\n"


def digests() -> dict[str, str]:
    """File name -> sha256 of the whole text."""
    return {name: hashlib.sha256(emit(kernel).encode()).hexdigest() for name, kernel in golden_kernels().items()}
