"""The factors of a parameter block, computed as upstream's host code does: in single precision, and in double precision
where its constants are double (``M_LOG2E``, ``255.0``).

Source: ``csrc/flash_attn/flash_api.cpp`` ``set_params_fprop``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import e, floor, log2

from fmha_cli.backends.gpu.arithmetic import single

LOG2_E = log2(e)
"""``M_LOG2E``."""
BYTES = 255.0


@dataclass(frozen=True)
class Scales:
    """The fields of ``Flash_fwd_params`` with the same names. The values are single-precision numbers."""

    scale_softmax: float
    scale_softmax_log2: float
    softcap: float
    p_dropout: float
    p_dropout_in_uint8_t: int
    rp_dropout: float
    scale_softmax_rp_dropout: float


def scales_of(scale: float, softcap: float, dropout: float) -> Scales:
    """The factors of a problem.

    Args:
        scale: the factor of q.k.
        softcap: the cap, 0 for none.
        dropout: the probability of dropping a score.
    """
    scale, softcap = single(scale), single(softcap)
    factor = softcap if softcap > 0 else scale
    kept = single(1.0 - single(dropout))
    inverse = single(1.0 / kept)
    return Scales(
        scale_softmax=factor,
        scale_softmax_log2=single(factor * LOG2_E),
        softcap=single(scale / softcap) if softcap > 0 else 0.0,
        p_dropout=kept,
        p_dropout_in_uint8_t=floor(kept * BYTES),
        rp_dropout=inverse,
        scale_softmax_rp_dropout=single(inverse * factor),
    )
