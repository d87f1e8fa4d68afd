"""Scales of fp8 problems, and the two encodings of fp8 that AMD devices have.

``fmha`` stores fp8 in the OCP encoding (e4m3fn, e5m2). gfx90a and gfx942 read the same bits as FNUZ: every number is
half as large, the bits of -0 mean NaN, and there is no infinity. The session therefore clears -0 in its device copies
(``conversions``). This module puts the factors of two into the scales, or onto O where a kernel has no scale for it.

Static quantisation (upstream's ``squant``, ``fmha_fwd_runner.hpp`` ``fmha_fwd_run``): ``scale_s`` undoes the scales of
Q and K, ``scale_p`` stretches P to its type's largest number, and ``scale_o`` undoes that and V's scale. Upstream also
stretches an fp8 O by its largest number over 5; ``fmha`` leaves the values of O as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.features import QScale
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem

FP8 = (DType.FP8_E4M3, DType.FP8_E5M2)
FACT, FNUZ = "fp8_encoding", "fnuz"
"""The architecture fact that states how fp8 bits are read."""

_HALVES = 2.0
"""OCP value / FNUZ value of the same bits: the exponent biases differ by one."""

_LARGEST = {
    (DType.FP8_E4M3, True): 240.0,
    (DType.FP8_E4M3, False): 448.0,
    (DType.FP8_E5M2, True): 57344.0,
    (DType.FP8_E5M2, False): 57344.0,
}
"""Largest finite number by (type, FNUZ): ``ck_tile/core/numeric/float8.hpp`` ``numeric``."""


@dataclass(frozen=True)
class Scales:
    """``scale_s``, ``scale_p`` and ``scale_o`` of the argument blocks. O is multiplied by ``o_after`` afterwards."""

    s: float
    p: float = 1.0
    o: float = 1.0
    o_after: float = 1.0


def reads_fnuz(kernel: KernelSpec) -> bool:
    """Whether the kernel reads its fp8 inputs as FNUZ."""
    if kernel.signature.dtype not in FP8:
        return False
    return load_arch(kernel.arch).facts.get(FACT, {}).get("value") == FNUZ


def scales_of(problem: Problem, kernel: KernelSpec, descales: Mapping[str, float]) -> Scales:
    """The factors for a problem.

    Args:
        descales: values of ``q_descale``, ``k_descale`` and ``v_descale``; a missing one counts as 1.
    """
    fnuz = reads_fnuz(kernel)
    twice = _HALVES if fnuz else 1.0
    s = problem.scale * descales.get("q_descale", 1.0) * descales.get("k_descale", 1.0) * twice**2
    stored_out = twice if fnuz and problem.dtype_out in FP8 else 1.0  # an fp8 O is read with twice its FNUZ value
    v = descales.get("v_descale", 1.0) * twice / stored_out
    if problem.qscale is not QScale.TENSOR:
        return Scales(s, o_after=v)
    largest = _LARGEST[problem.dtype, fnuz]
    return Scales(s, p=largest, o=v / largest)
