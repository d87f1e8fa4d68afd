"""The meaning of the bytes of 8-bit tensors, as kernels take it, and where their scales are. Standard library only: the
worker imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import inf, nan

from fmha_cli.domain.features import QScale
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BoundTensor
from fmha_cli.domain.tensors import Element

_FORMATS = {
    Element.FP8_E4M3: (3, 7),
    Element.FP8_E5M2: (2, 15),
    Element.FP8_E4M3_FNUZ: (3, 8),
    Element.FP8_E5M2_FNUZ: (2, 16),
}
"""Bits of the mantissa, bias of the exponent.

Source: OCP 8-bit Floating Point Specification (OFP8) 1.0, table 1; Micikevicius et al. (2022); for FNUZ, LLVM's
``APFloat.h`` ``S_Float8E4M3FNUZ``, ``S_Float8E5M2FNUZ``.
"""


@cache
def meanings(element: Element) -> tuple[float, ...]:
    """The number that each byte means.

    Raises:
        KeyError: not an 8-bit type.
    """
    if element is Element.INT8:
        return tuple(float(code - 256 * (code > 127)) for code in range(256))
    return tuple(_meaning(code, element) for code in range(256))


def _meaning(code: int, element: Element) -> float:
    mantissas, bias = _FORMATS[element]
    sign, body = -1.0 if code > 127 else 1.0, code & 127
    exponent, mantissa = body >> mantissas, body & ((1 << mantissas) - 1)
    if element in (Element.FP8_E4M3_FNUZ, Element.FP8_E5M2_FNUZ):
        if code == 128:
            return nan
    elif element is Element.FP8_E5M2 and exponent == 31:
        return nan if mantissa else sign * inf
    elif body == 127 and element is Element.FP8_E4M3:
        return nan
    if not exponent:
        return sign * mantissa * 2.0 ** (1 - bias - mantissas)
    return sign * (1 + mantissa / (1 << mantissas)) * 2.0 ** (exponent - bias)


def scales(problem: Problem, tensors: Mapping[str, BoundTensor], base: int) -> dict[str, int]:
    """Members of the argument block: addresses and strides of the scales, in elements.

    Args:
        base: address of the arena's first byte.
    """
    held = {name: tensors[f"{name}_descale"] for name in "qkv" if f"{name}_descale" in tensors}
    out = {f"{name}_scale": base + tensor.offset for name, tensor in held.items()}
    if "k" in held and problem.v_in_k:
        out["v_scale"] = out["k_scale"]
    if "q" in held and problem.qscale in (QScale.HEAD, QScale.BLOCK):
        out |= _name_scale("q_scale", held["q"])
        out["q_scale_ratio"] = problem.heads // problem.kv_heads if problem.qscale is QScale.HEAD else 1
    if "k" in held and problem.qscale is not QScale.TENSOR:
        out |= _name_scale("kv_scale", held["k"])
        out["scale_pages"] = int(problem.qscale is QScale.KV_BLOCK and problem.paged)
    return out


def _name_scale(name: str, tensor: BoundTensor) -> dict[str, int]:
    axes = ("batch", "head", "block")
    return {f"{name}_{axis}_stride": stride for axis, stride in zip(axes, tensor.strides, strict=False)}
