"""The kernel arguments (kargs) that a problem needs, derived independently from upstream's runners: members of many families.

Source: ``example/ck_tile/01_fmha/fmha_fwd_runner.hpp`` and ``fmha_bwd_runner.hpp`` (sizes, strides), ``MakeKargs`` and
``GridSize`` of ``include/ck_tile/ops/fmha/kernel/*.hpp`` (members, grids). These modules use none of the product's
argument blocks. Names are those of CK's own argument structs, and tensors are dense.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Plan

Members = dict[str, Any]
LOG2E = 1.44269504088896340736


@dataclass(frozen=True)
class Expected:
    """The grid, the block and every member of the kernel's arguments."""

    grid: tuple[int, int, int]
    block: int
    members: Members


class Parts:
    """The arguments that several families have, for one stage of a plan."""

    def __init__(self, plan: Plan, kernel: KernelSpec) -> None:
        assert isinstance(kernel.algorithm, CkAlgorithm)
        self.plan, self.p, self.k, self.a = plan, plan.problem, kernel, kernel.algorithm
        p = self.p
        self.group = p.seqlens_q is not None
        self.q_lengths, self.k_lengths = p.query_lengths(), p.key_lengths()
        self.rows = sum(self.q_lengths) if self.group else p.seqlen_q
        self.cached = p.cache_seqlens is not None
        self.keys = sum(self.k_lengths) if self.group and not self.cached else p.seqlen_k
        self.wave32 = not kernel.arch.startswith("gfx9")

    # ---- strides of dense tensors ----

    def tensor(self, name: str, heads: int, length: int, dim: int, *, out: bool = False) -> Members:
        p = self.p
        bhsd = (p.layout_out if out else p.layout).value == "bhsd"
        return {
            f"stride_{name}": dim if bhsd else heads * dim,
            f"nhead_stride_{name}": length * dim if bhsd else dim,
            f"batch_stride_{name}": heads * length * dim,
        }

    def q(self) -> Members:
        return self.tensor("q", self.p.heads, self.rows, self.p.hdim)

    def o(self, name: str = "o") -> Members:
        return self.tensor(name, self.p.heads, self.rows, self.p.hdim_v, out=True)

    def kv(self, name: str, dim: int) -> Members:
        p = self.p
        if p.paged:
            step = p.kv_heads * dim
            return {f"stride_{name}": step, f"nhead_stride_{name}": dim, f"batch_stride_{name}": p.kv_cache.page * step}
        return self.tensor(name, p.kv_heads, self.keys, dim)

    def without_batch(self, members: Members) -> Members:
        """The members, without batch strides if the tensors are packed."""
        return {k: v for k, v in members.items() if not (self.group and k.startswith("batch_stride_"))}

    # ---- parts ----

    def sizes(self) -> Members:
        p = self.p
        lengths = {"seqlen_q": -1, "seqlen_k": -1} if self.group else {"seqlen_q": self.rows, "seqlen_k": p.seqlen_k}
        heads = {"num_head_q": p.heads, "nhead_ratio_qk": p.heads // p.kv_heads}
        return {**lengths, "hdim_q": p.hdim, "hdim_v": p.hdim_v, **heads}

    def scale(self) -> float:
        value = (
            np.float32(self.p.scale) if self.p.qscale.value == "none" else np.float32(self.p.scale * self.fnuz() ** 2)
        )
        if self.p.dtype.value.startswith("fp8"):
            value = np.float32(self.p.scale * self.fnuz() ** 2)
        return float(np.float32(float(value) * LOG2E))

    def fnuz(self) -> int:
        """2 for fp8 on gfx90a and gfx942 (FNUZ), where the same bits mean half as much, else 1."""
        return 2 if self.k.arch in ("gfx90a", "gfx942") and self.p.dtype.value.startswith("fp8") else 1

    def quant(self, *, o: bool = True) -> Members:
        if self.k.signature.qscale.value != "tensor":
            return {}
        largest = {("fp8_e4m3", 2): 240.0, ("fp8_e4m3", 1): 448.0}[self.p.dtype.value, self.fnuz()]
        back = float(np.float32(self.fnuz() / largest))
        return {"scale_p": largest, "scale_o": back} if o else {"scale_p": largest}

    def mask(self) -> Members:
        m = self.p.mask
        if self.k.signature.mask.value == "none":
            return {}
        kind = 1 if m.align.value == "top_left" else 2
        return {
            "window_size_left": -1 if m.left is None else m.left,
            "window_size_right": -1 if m.right is None else m.right,
            "mask_type": kind,
        }

    def bias(self) -> Members:
        p = self.p
        if p.alibi.value != "none":
            return {"alibi_slope_ptr": "alibi_slopes", "alibi_slope_stride": p.heads if p.alibi.value == "bh" else 0}
        if p.bias.value == "none":
            return {}
        batch, head, row, _ = p.bias.value
        plane = p.seqlen_k * (p.seqlen_q if row == "s" else 1)
        out = {
            "bias_ptr": "bias",
            "stride_bias": p.seqlen_k if row == "s" else 0,
            "nhead_stride_bias": plane if head == "h" else 0,
        }
        step = plane * (p.heads if head == "h" else 1) if batch == "b" else 0
        return out if self.group else out | {"batch_stride_bias": step}

    def softcap(self) -> Members:
        if not self.p.softcap:
            return {}
        cap = np.float32(self.p.softcap)
        return {"logits_soft_cap": float(cap), "logits_soft_cap_rcp": float(np.float32(1) / cap)}

    def lse(self) -> Members:
        if self.k.signature.lse.value != "yes":
            return {}
        batch = 0 if self.group else self.p.heads * self.rows
        return {"lse_ptr": "lse", "nhead_stride_lse": self.rows, "batch_stride_lse": batch}

    def dropout(self, *, backward: bool = False) -> Members:
        p = self.p
        if not p.dropout:
            return {}
        kept = np.float32(1.0 - float(np.float32(p.dropout)))
        again = np.float32(1.0 / float(kept))
        out: Members = {
            "drop_seed": p.seed,
            "drop_offset": p.offset,
            "is_drop_seed_offset_from_host": True,
            "rp_undrop": float(again),
            "p_undrop_in_uint8_t": math.floor(float(kept * np.float32(255))),
            "rand_val_ptr": None,
            "stride_randval": 0,
            "nhead_stride_randval": 0,
        }
        if backward:
            out["scale_rp_undrop"] = float(np.float32(float(again) * float(np.float32(p.scale))))
        else:
            out["is_store_randval"] = False
        return out if self.group else out | {"batch_stride_randval": 0}

    def tiles(self) -> int:
        return -(-max(self.q_lengths) // self.a.tile[0]) * -(-self.p.hdim_v // self.a.tile[3])

    def threads(self) -> int:
        waves = math.prod(self.a.waves[:3])
        return waves * (32 if self.wave32 else 64)
