"""Build CK-Tile kernels of every family for several architectures, and compare what ``fmha`` reads in them with LLVM's tools.

``ck_tile_kernels.json`` lists the kernels by upstream's names. The referee (``llvm-readelf --notes``, ``llvm-objdump -d``) reads registers,
spills, LDS and the counts of instructions. A row is good if its kernel was built and no figure differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from fmha_cli.api import KernelSpec, Registry, build_registry
from fmha_cli.plugin import Artifact
from tests.checks.check import Check, Row
from tests.checks.kernel_builds import KernelBuild, built_row, good, key_of, listed, sort_of, summary
from tests.support.referees import code_objects

BACKEND = "ck_tile"
registry = cache(build_registry)


@cache
def _named(arch: str) -> Mapping[str | None, KernelSpec]:
    backend = registry().backend(BACKEND)
    return {backend.upstream_name(kernel): kernel for kernel in backend.kernels(registry().arch(arch))}


def kernel_of(case: KernelBuild, registry: Registry) -> KernelSpec:
    """The kernel of a case.

    Raises:
        LookupError: a name that the catalogue does not have.
    """
    kernel = _named(case.arch).get(case.kernel)
    if kernel is None or kernel.family.value != case.family:
        raise LookupError(f"{case.arch} has no {case.family} kernel {case.kernel}")
    return kernel


def referee(kernel: KernelSpec, artifact: Artifact, findings: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The disagreements of LLVM's tools."""
    return code_objects.compared(kernel, artifact, findings), {}


def carry_out(case: KernelBuild) -> Row:
    return built_row(case, kernel_of(case, registry()), registry(), referee)


CHECK = Check(
    cases=partial(listed, BACKEND),
    name=lambda case: case.name,
    carry_out=carry_out,
    depends=lambda case: key_of(kernel_of(case, registry()), registry()),
    good=good,
    by=(sort_of, "arch"),
    summarise=summary,
)
