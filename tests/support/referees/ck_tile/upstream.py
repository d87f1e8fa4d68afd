"""Upstream's choice for a problem, walked through its generated API files with the values that its runners would pass.

This module does not use the product's view of upstream (``situation``, ``preferences``, ``splits``). It repeats the
runners' arithmetic.
"""

from __future__ import annotations

import math
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.backends.ck_tile.tree import pinned_tree
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, Pipeline
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from tests.support.referees.ck_tile.api_text import Taken, read_function, walk

DRIVER = Path(__file__).with_name("api_driver.py")
FUNCTIONS = {
    "fwd": "fmha_fwd",
    "fwd_splitkv": "fmha_fwd_splitkv",
    "fwd_appendkv": "fmha_fwd_appendkv",
    "pagedkv_prefill": "fmha_fwd_pagedkv",
    "batch_prefill": "fmha_batch_prefill",
    "bwd": "fmha_bwd<2>",
}
DTYPES = {
    ("fp32", "fp32"): "fp32",
    ("fp16", "fp16"): "fp16",
    ("bf16", "bf16"): "bf16",
    ("fp8_e4m3", "fp8_e4m3"): "fp8",
    ("fp8_e4m3", "bf16"): "fp8bf16",
    ("fp8_e4m3", "fp32"): "fp8fp32",
}
MASKS = {
    "none": "no_mask",
    "causal": "mask_bottom_right",
    "causal-tl": "mask_top_left",
    "window": "mask_bottom_right",
    "window-tl": "mask_top_left",
    "generic": "window_generic",
}


def generator(cache_root: Path) -> Path:
    """The folder of upstream's generator. Skips the test, with the reason, if the sources are not available."""
    try:
        found = pinned_tree(cache_root, offline=False, notify=lambda notice: None).generator
    except EnvironmentProblem as fault:
        pytest.skip(f"upstream's generator is not here: {fault}")
    assert found is not None
    return found


@dataclass
class Upstream:
    """The API files of one architecture and receipt, generated and read on demand."""

    folder: Path
    arch: str
    receipt: int

    def api(self, name: str) -> list[Any]:
        return _read(self.folder, self.arch, self.receipt, name)

    def choice(self, problem: Problem, units: int) -> dict[Family, tuple[str, ...]]:
        """The template arguments of the kernels by family; empty if upstream reports "not supported yet"."""
        out: dict[Family, tuple[str, ...]] = {}
        if problem.direction.value == "bwd":
            return self._backward(problem, units)
        splits = split_count(problem, units)
        cached = problem.kv_cache.kind.value != "none"
        if problem.append:
            taken = self._taken("fwd_appendkv", problem, units, splits)
            if taken is None:
                return {}
            out[Family.FWD_APPENDKV] = taken.arguments("trait_")
        if problem.kv_cache.page == 1:
            return self._one("batch_prefill", Family.BATCH_PREFILL, problem, units, splits)
        if splits == 1 and cached:
            found = self._one("pagedkv_prefill", Family.FWD_PAGEDKV, problem, units, splits)
            if found:
                return {**out, **found}
        if splits > 1 or cached:
            taken = self._taken("fwd_splitkv", problem, units, splits)
            if taken is None:
                return {}
            main, combine = taken.arguments("traits_"), taken.arguments("traits2_")
            return {**out, Family.FWD_SPLITKV: main, Family.FWD_SPLITKV_COMBINE: combine}
        return self._one("fwd", Family.FWD, problem, units, splits)

    def _one(
        self, api: str, family: Family, problem: Problem, units: int, splits: int
    ) -> dict[Family, tuple[str, ...]]:
        taken = self._taken(api, problem, units, splits)
        return {} if taken is None else {family: taken.arguments("trait_")}

    def _backward(self, problem: Problem, units: int) -> dict[Family, tuple[str, ...]]:
        taken = self._taken("bwd", problem, units, 1)
        if taken is None:
            return {}
        out = {
            Family.BWD_DOT_DO_O: taken.arguments("dot_do_o_trait_"),
            Family.BWD_DQ_DK_DV: taken.arguments("dq_dk_dv_trait_"),
        }
        if "conditional_t<true" in taken.before:
            out[Family.BWD_CONVERT_DQ] = taken.arguments("convert_dq_trait_")
        return out

    def _taken(self, api: str, problem: Problem, units: int, splits: int) -> Taken | None:
        taken = walk(self.api(api), _Values(self.arch, api, problem, units))
        if taken is None or taken.returned == "-1":
            return None
        return None if taken.returned == "r" and "fmha_bwd_<" not in taken.before else taken


@cache
def _read(folder: Path, arch: str, receipt: int, api: str) -> list[Any]:
    command = [sys.executable, str(DRIVER), api, arch, str(receipt)]
    environ = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=600)
    return read_function(done.stdout, FUNCTIONS[api])


def split_count(problem: Problem, units: int) -> int:
    """``override_num_splits_if_necessary`` in exact single precision, including ``int(ratio * 2**24)``."""
    if problem.splits:
        return problem.splits
    if problem.dropout:
        return 1
    rows = max(problem.query_lengths())
    blocks, slots = problem.batch * problem.heads * math.ceil(rows / 64), units * 2
    if not blocks or blocks >= f32(f32(0.8) * slots):
        return 1
    shares = []
    for count in range(1, min(128, slots) + 1):
        waves = f32(f32(blocks * count) / f32(slots))
        shares.append(f32(waves / math.ceil(waves)))
    found = next(count for count, share in enumerate(shares, 1) if share >= 0.85 * max(shares))
    return min(found, key_tiles(problem))


def key_tiles(problem: Problem) -> int:
    """The tiles of the longest sequence's keys: more splits are of no use, and ``auto`` takes no more."""
    return max(1, math.ceil(max(problem.key_lengths()) / (64 if max(problem.hdim, problem.hdim_v) <= 64 else 128)))


def f32(value: float) -> float:
    return struct.unpack("=f", struct.pack("=f", value))[0]


class Single(float):
    """A C++ ``float``: its product with an integer is rounded to single precision."""

    def __rmul__(self, other: float) -> float:
        return f32(f32(other) * float(self))


class _Values(dict[str, Any]):
    """The values of the names in the API files, as the runners fill ``t`` and ``a``."""

    def __init__(self, arch: str, api: str, p: Problem, units: int) -> None:
        group = p.seqlens_q is not None
        rows, keys = p.query_lengths(), p.key_lengths()
        cached = p.kv_cache.kind.value != "none"
        dtype = DTYPES.get((p.dtype.value, p.dtype_out.value), "none of them")
        bias = "alibi" if p.alibi.value != "none" else "no_bias" if p.bias.value == "none" else "elementwise_bias"
        rotary = {"half": "half_rotated", "interleaved": "interleaved"}[p.rotary.style.value]
        if api == "batch_prefill":  # lengths come from kv_indptr; the caller passes one only if all are equal
            seqlen_k = keys[0] if len(set(keys)) == 1 else 0
        else:
            seqlen_k = sum(keys) if group else max(keys)
        super().__init__(
            {
                "true": True,
                "false": False,
                "nullptr": None,
                "t.hdim_q": p.hdim,
                "t.hdim_v": p.hdim_v,
                "t.data_type.compare": lambda name: 0 if name == dtype else 1,
                "device_name.compare": lambda start, count, name: 0 if arch[start : start + count] == name else 1,
                "t.is_v_rowmajor": True,
                "t.is_group_mode": group,
                "t.has_logits_soft_cap": p.softcap > 0,
                "t.mask_type": MASKS[p.mask.kind.value],
                "t.bias_type": bias,
                "t.has_lse": p.lse,
                "t.has_dropout": p.dropout > 0,
                "t.do_fp8_static_quant": p.qscale.value == "tensor",
                "t.skip_min_seqlen_q": False,
                "t.use_pagedkv": p.paged,
                "t.rope_type": rotary if p.rotary.dim else "none",
                "t.has_dbias": p.dbias,
                "t.is_store_randval": False,
                "t.is_deterministic": p.deterministic,
                "a.hdim_q": p.hdim,
                "a.hdim_v": p.hdim_v,
                "a.seqlen_q": sum(rows) if group else rows[0],
                "a.seqlen_k": seqlen_k,
                "a.cu_seqlen_k_ptr": None,
                "a.seqlen_k_ptr": "lengths" if cached else None,
                "a.block_table_ptr": "table" if p.paged else None,
                "num_cus": units,
                "min_cu_util_rate": Single(f32(0.8)),
                "get_num_cus": lambda units: True,
                "get_num_blocks": lambda m: p.batch * p.heads * math.ceil(max(rows) / m),
            }
        )

    def __missing__(self, name: str) -> str:
        kind, _, value = name.partition("::")
        if kind not in ("mask_enum", "bias_enum", "rope_enum"):
            raise KeyError(name)
        return value


def arguments_of(kernel: KernelSpec) -> tuple[str, ...]:
    """The template arguments that upstream's API file gives a kernel, derived from its specification."""
    a = kernel.algorithm
    assert isinstance(a, CkAlgorithm)
    return _ARGUMENTS[kernel.family](kernel, a)


def _flag(value: object) -> str:
    return "true" if value else "false"


def _type(kernel: KernelSpec, prefix: str = "FmhaFwd") -> str:
    name = DTYPES[kernel.signature.dtype.value, kernel.signature.dtype_out.value]
    spelled = {"fp8bf16": "Fp8Bf16", "fp8fp32": "Fp8Fp32"}.get(name, name.capitalize())
    return f"{prefix}{spelled}"


def _mode(kernel: KernelSpec) -> str:
    return _flag(kernel.signature.mode.value == "group")


def _mask(kernel: KernelSpec) -> str:
    return f"ck_tile::SimplifiedGenericAttentionMask<{_flag(kernel.signature.mask.value != 'none')}>"


def _bias(kernel: KernelSpec) -> str:
    name = {"none": "NO_BIAS", "elementwise": "ELEMENTWISE_BIAS", "alibi": "ALIBI"}[kernel.signature.bias.value]
    return f"ck_tile::BlockAttentionBiasEnum::{name}"


def _pipeline(a: CkAlgorithm) -> str:
    name = {Pipeline.QR_ASYNC: "QRKSVS_ASYNC", Pipeline.QR_ASYNC_TRLOAD: "QRKSVS_ASYNC_TRLOAD"}.get(
        a.pipeline, "QRKSVS"
    )
    return f"ck_tile::BlockFmhaPipelineEnum::{name}"


def _pads(a: CkAlgorithm) -> tuple[str, ...]:
    return tuple(map(_flag, (a.pad_s, a.pad_sk, a.pad_d, a.pad_dv)))


def _head(kernel: KernelSpec, a: CkAlgorithm) -> tuple[str, ...]:
    tile = tuple(map(str, a.tile))
    features = (_flag(kernel.signature.softcap.value == "yes"), _mask(kernel), _bias(kernel))
    return (str(kernel.signature.hdim), _type(kernel), _mode(kernel), *tile, "true", _pipeline(a), *features)


def _quant(kernel: KernelSpec) -> str:
    return _flag(kernel.signature.qscale.value == "tensor")


def _fwd(kernel: KernelSpec, a: CkAlgorithm) -> tuple[str, ...]:
    s = kernel.signature
    features = (_flag(s.lse.value == "yes"), _flag(s.dropout.value == "yes"), _quant(kernel))
    return (*_head(kernel, a), *features, *_pads(a), _flag(a.trload), _flag(a.skip_min_seqlen_q))


def _prefill(kernel: KernelSpec, a: CkAlgorithm) -> tuple[str, ...]:
    s = kernel.signature
    features = (_flag(s.lse.value == "yes"), _flag(s.dropout.value == "yes"), _quant(kernel))
    return (*_head(kernel, a), *features, *_pads(a), "false")


def _splitkv(kernel: KernelSpec, a: CkAlgorithm) -> tuple[str, ...]:
    paged = _flag(kernel.signature.cache.value == "paged")
    return (*_head(kernel, a), "true", _quant(kernel), paged, *_pads(a))


def _pagedkv(kernel: KernelSpec, a: CkAlgorithm) -> tuple[str, ...]:
    lse = _flag(kernel.signature.lse.value == "yes")
    return (*_head(kernel, a), lse, "true", _quant(kernel), *_pads(a), _flag(a.skip_min_seqlen_q))


def _combine(kernel: KernelSpec, a: CkAlgorithm) -> tuple[str, ...]:
    lse = _flag(kernel.signature.lse.value == "yes")
    sizes = (str(kernel.signature.hdim), _type(kernel), _mode(kernel), str(a.tile[0]))
    return (*sizes, lse, _quant(kernel), _flag(a.pad_s), _flag(a.pad_dv))


def _append(kernel: KernelSpec, a: CkAlgorithm) -> tuple[str, ...]:
    rotary = {"none": "NONE", "half": "HALF_ROTATED", "interleaved": "INTERLEAVED"}[kernel.signature.rotary.value]
    paged = _flag(kernel.signature.cache.value == "paged")
    tile = tuple(map(str, a.tile))
    kind = f"ck_tile::RotaryEmbeddingEnum::{rotary}"
    return (str(kernel.signature.hdim), _type(kernel), *tile, "true", *_pads(a), kind, paged)


def _bwd(kernel: KernelSpec, a: CkAlgorithm) -> tuple[str, ...]:
    s = kernel.signature
    dropout = f"{_flag(s.dropout.value == 'yes')},{_flag(s.dropout.value != 'yes')},{_flag(a.store_randval)}"
    return (
        *(str(s.hdim), _type(kernel, "FmhaBwd"), _mode(kernel), _mask(kernel), f"ck_tile::BlockDropoutBwd<{dropout}>"),
        *(_bias(kernel), _flag(s.dbias.value == "yes"), str(int(a.pad_d)), str(int(a.pad_dv))),
        *(_flag(s.deterministic.value == "yes"), _flag(a.trload), str(a.max_seq_q), str(a.tile[1])),
    )


def _dot(kernel: KernelSpec, a: CkAlgorithm) -> tuple[str, ...]:
    return (str(kernel.signature.hdim), _type(kernel, "FmhaBwd"), _mode(kernel), _flag(a.pad_s), _flag(a.pad_dv))


def _convert(kernel: KernelSpec, a: CkAlgorithm) -> tuple[str, ...]:
    deterministic = _flag(kernel.signature.deterministic.value == "yes")
    sizes = (str(kernel.signature.hdim), _type(kernel, "FmhaBwd"), _mode(kernel))
    return (*sizes, _flag(a.pad_s), _flag(a.pad_d), deterministic, str(a.tile[1]))


_ARGUMENTS: dict[Family, Callable[[KernelSpec, CkAlgorithm], tuple[str, ...]]] = {
    Family.FWD: _fwd,
    Family.FWD_SPLITKV: _splitkv,
    Family.FWD_SPLITKV_COMBINE: _combine,
    Family.FWD_PAGEDKV: _pagedkv,
    Family.FWD_APPENDKV: _append,
    Family.BATCH_PREFILL: _prefill,
    Family.BWD_DOT_DO_O: _dot,
    Family.BWD_DQ_DK_DV: _bwd,
    Family.BWD_CONVERT_DQ: _convert,
}
