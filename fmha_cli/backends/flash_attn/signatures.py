"""The signatures of FlashAttention's kernels by family: compiled-in features and run-time arguments."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.signature import (
    BiasKey,
    CacheKey,
    Fp8Key,
    KvKey,
    MaskKey,
    ModeKey,
    Need,
    QScaleKey,
    RotaryKey,
    Signature,
)

NAME = "flash_attn"
FAMILIES = (
    Family.FWD,
    Family.FWD_SPLITKV,
    Family.FWD_SPLITKV_COMBINE,
    Family.BWD_DOT_DO_O,
    Family.BWD_DQ_DK_DV,
    Family.BWD_CONVERT_DQ,
)
"""The families that FlashAttention has."""
MAIN = (Family.FWD, Family.FWD_SPLITKV, Family.BWD_DQ_DK_DV)
"""Families whose kernels are candidates. The other families are stages around them."""
DTYPES = (DType.FP16, DType.BF16)
MASKS = (MaskKey.NONE, MaskKey.CAUSAL, MaskKey.WINDOW)
"""Neither, ``Is_causal``, and ``Is_local``."""
_NOWHERE = {
    "sink": Need.NO,
    "sink_logits": Need.NO,
    "qscale": QScaleKey.NONE,
    "fp8_encoding": Fp8Key.OCP,
    "kv_dtype": KvKey.SAME,
    "dbias": Need.NO,
    "page": 0,
    "lse": Need.ANY,
    "gqa": Need.ANY,
    "deterministic": Need.ANY,
}
"""Fields with the same value in every kernel: features that no kernel has, and the run-time arguments of every kernel.
"""
_NO_CACHE = {"cache": CacheKey.NONE, "append": Need.NO, "rotary": RotaryKey.NONE, "split": Need.NO}
_ANY_CACHE = {"cache": CacheKey.ANY, "append": Need.ANY, "rotary": RotaryKey.ANY, "split": Need.YES}
_STAGE = {
    "mode": ModeKey.ANY,
    "mask": MaskKey.ANY,
    "bias": BiasKey.ANY,
    "softcap": Need.ANY,
    "dropout": Need.ANY,
}
CONSTANTS: Mapping[Family, Mapping[str, Any]] = MappingProxyType(
    {
        Family.FWD: {**_NOWHERE, **_NO_CACHE},
        Family.FWD_SPLITKV: {**_NOWHERE, "cache": CacheKey.ANY, "dropout": Need.NO},
        Family.FWD_SPLITKV_COMBINE: {**_NOWHERE, **_STAGE, **_ANY_CACHE},
        Family.BWD_DOT_DO_O: {**_NOWHERE, **_STAGE, **_NO_CACHE},
        Family.BWD_DQ_DK_DV: {**_NOWHERE, **_NO_CACHE},
        Family.BWD_CONVERT_DQ: {**_NOWHERE, **_STAGE, **_NO_CACHE},
    }
)
"""Fields of the signature that all kernels of a family share.

The fields that vary are data type and head dim. In main families mode, mask, bias and softcap vary too, and either
dropout or split, append and rotary.
"""


_signature = cache(Signature)
"""Equal signatures are one object, also on several architectures."""


def signature(family: Family, dtype: DType, hdim: int, **compiled: Any) -> Signature:
    """The signature of a kernel. ``compiled`` has the fields that are not constants of the family."""
    return _signature(dtype=dtype, dtype_out=dtype, hdim=hdim, hdim_v=hdim, **CONSTANTS[family], **compiled)
