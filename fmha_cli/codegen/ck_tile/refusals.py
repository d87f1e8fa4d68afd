"""Kernels that cannot be generated."""

from __future__ import annotations

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import KernelSpec

BASELINE = "baseline"


def no_emitter(kernel: KernelSpec) -> EnvironmentProblem:
    """The error for a kernel that only another revision of CK has."""
    revision = getattr(kernel.algorithm, "rev", BASELINE)
    return EnvironmentProblem(
        f"{kernel.name} cannot be built: the sources at hand are those of the baseline CK",
        code="B040",
        where="ck_tile",
        why=f"the kernel is of revision {revision}, which fmha lists and does not build",
        help="fmha list-kernels without --ck-rev lists the kernels that can be built",
    )
