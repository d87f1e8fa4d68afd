"""Rules by which a kernel that upstream's generator emits still cannot be used on its architecture."""

from __future__ import annotations

from fmha_cli.arch import ArchSpec
from fmha_cli.backends.ck_tile.condition import algorithm_of
from fmha_cli.backends.ck_tile.kernel_rule import EVERY, KernelRule, Refusal, Stage
from fmha_cli.kernel import KernelSpec
from fmha_cli.rules import Severity


def _matrix(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    """A wave's product must be made of the architecture's matrix instructions."""
    warp = algorithm_of(kernel).warp
    able = [tuple(shape) for shape in arch.fact("matrix_shapes")]
    for m, n, k in zip(warp[0::3], warp[1::3], warp[2::3], strict=True):
        if (m, n) not in able:
            shapes = ", ".join(f"{a}x{b}" for a, b in able)
            return Refusal(
                f"a wave's product of {m}x{n}x{k} on {arch.name}, whose {arch.fact('matrix_kind')} instructions are {shapes}",
                "another architecture",
            )
    return None


TARGET_RULES: tuple[KernelRule, ...] = (
    KernelRule(
        "K290",
        "the architecture has matrix instructions of the shape of a wave's product",
        _matrix,
        ("warp",),
        EVERY,
        Stage.TARGET,
        "MFMA instructions (CDNA) are 16x16 or 32x32, WMMA instructions (RDNA) 16x16. The baseline's generator files "
        "one table of batch-prefill kernels for every target, made of 32x32 products and of waves of 64 lanes.",
        "include/ck_tile/ops/gemm/warp/warp_gemm_dispatcher.hpp",
        severity=Severity.PLACE,
    ),
)
