"""The kernel arguments (kargs) that a problem needs, derived independently from upstream's runners.

Source: ``example/ck_tile/01_fmha/fmha_fwd_runner.hpp`` and ``fmha_bwd_runner.hpp`` (sizes, strides), ``MakeKargs`` and
``GridSize`` of ``include/ck_tile/ops/fmha/kernel/*.hpp`` (members, grids). This module uses none of the product's
argument blocks. Names are those of CK's own argument structs, and tensors are dense.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem

Members = dict[str, Any]
LOG2E = 1.44269504088896340736


@dataclass(frozen=True)
class Expected:
    """The grid, the block and every member of the kernel's arguments."""

    grid: tuple[int, int, int]
    block: int
    members: Members


def expected(plan: Plan, kernel: KernelSpec) -> Expected:
    """The expected launch of one stage."""
    return _Reader(plan, kernel).launch()


class _Reader:
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

    def launch(self) -> Expected:
        return {
            Family.FWD: self.fwd,
            Family.FWD_SPLITKV: self.splitkv,
            Family.FWD_SPLITKV_COMBINE: self.combine,
            Family.FWD_PAGEDKV: self.pagedkv,
            Family.FWD_APPENDKV: self.appendkv,
            Family.BATCH_PREFILL: self.prefill,
            Family.BWD_DOT_DO_O: self.dot,
            Family.BWD_DQ_DK_DV: self.bwd,
            Family.BWD_CONVERT_DQ: self.convert,
        }[self.k.family]()

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
        plane = p.seqlen_q * p.seqlen_k
        out = {
            "bias_ptr": "bias",
            "stride_bias": p.seqlen_k,
            "nhead_stride_bias": {"11ss": 0, "1hss": plane, "bhss": plane}[p.bias.value],
        }
        return out if self.group else out | {"batch_stride_bias": p.heads * plane if p.bias.value == "bhss" else 0}

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

    # ---- families ----

    def forward(self) -> Members:
        p = self.p
        pointers = {"q_ptr": "q", "k_ptr": "k", "v_ptr": "v", "o_ptr": "o"}
        strides = {**self.q(), **self.kv("k", p.hdim), **self.kv("v", p.hdim_v), **self.o()}
        rest = {**self.bias(), **self.mask(), **self.lse(), **self.quant(), **self.dropout(), **self.softcap()}
        return {**pointers, **self.sizes(), "scale_s": self.scale(), **self.without_batch(strides), **rest}

    def tiles(self) -> int:
        return -(-max(self.q_lengths) // self.a.tile[0]) * -(-self.p.hdim_v // self.a.tile[3])

    def threads(self) -> int:
        waves = math.prod(self.a.waves[:3])
        return waves * (32 if self.wave32 else 64)

    def fwd(self) -> Expected:
        members = {**self.forward(), "cu_seqlen_q_ptr": None, "cu_seqlen_k_ptr": None}
        if self.group:
            members |= {"seqstart_q_ptr": "seqstart_q", "seqstart_k_ptr": "seqstart_k"}
            members |= {"seqlen_q_ptr": None, "seqlen_k_ptr": None}
            if self.a.skip_min_seqlen_q:
                members["min_seqlen_q"] = 0
        return Expected((self.p.heads, self.tiles(), self.p.batch), self.threads(), members)

    def pages(self) -> Members:
        width = max(1, -(-self.p.seqlen_k // self.p.kv_cache.page))
        out: Members = {"block_table_ptr": "block_table", "batch_stride_block_table": width}
        out["page_block_size"] = self.p.kv_cache.page
        return out | {"is_gappy": False} if self.group else out

    def page_steps(self) -> Members:
        """With a cache, the batch strides of K and V are page strides, also in group mode."""
        both = {**self.kv("k", self.p.hdim), **self.kv("v", self.p.hdim_v)}
        return {k: v for k, v in both.items() if k.startswith("batch_stride_")}

    def cache_lengths(self) -> Members:
        out: Members = {"seqlen_k_ptr": "seqlen_k" if self.cached else None}
        return out | {"seqstart_q_ptr": "seqstart_q", "seqstart_k_ptr": "seqstart_k"} if self.group else out

    def pagedkv(self) -> Expected:
        members = {**self.forward(), **self.page_steps(), **self.pages(), **self.cache_lengths()}
        if self.group and self.a.skip_min_seqlen_q:
            members["min_seqlen_q"] = 0
        p, tiles = self.p, self.tiles()
        grid = (p.heads, p.batch, tiles) if self.group else (tiles, p.heads, p.batch)
        return Expected(grid, self.threads(), members)

    def accumulators(self) -> Members:
        p, splits = self.p, self.plan.splits
        out = {
            "lse_acc_ptr": "lse_acc",
            "o_acc_ptr": "o_acc",
            "nhead_stride_lse_acc": splits * self.rows,
            "nhead_stride_o_acc": splits * self.rows * p.hdim_v,
            "split_stride_lse_acc": self.rows,
            "split_stride_o_acc": self.rows * p.hdim_v,
            "num_splits": splits,
            "batch": p.batch,
        }
        batch = {
            "batch_stride_lse_acc": p.heads * splits * self.rows,
            "batch_stride_o_acc": p.heads * splits * self.rows * p.hdim_v,
        }
        return out if self.group else out | batch

    def splitkv(self) -> Expected:
        p = self.p
        strides = {**self.q(), **self.kv("k", p.hdim), **self.kv("v", p.hdim_v)}
        members = {
            "q_ptr": "q_rotated" if p.rotary.dim else "q",
            "k_ptr": "k",
            "v_ptr": "v",
            **self.sizes(),
            "scale_s": self.scale(),
            **self.without_batch(strides),
            **self.page_steps(),
            **self.accumulators(),
            "stride_o_acc": p.hdim_v,
            **self.bias(),
            **self.mask(),
            **self.quant(o=False),
            **self.softcap(),
            **self.cache_lengths(),
        }
        if p.paged:
            members |= self.pages()
        elif not self.group:
            members["cache_batch_idx"] = None
        heads, rows = p.heads, max(self.q_lengths)
        plain = self.k.signature.bias.value == "none" and self.k.signature.mask.value == "none"
        if self.k.signature.hdim == 128 and plain and rows == 1 and p.kv_heads < p.heads:
            heads, rows = p.kv_heads, p.heads // p.kv_heads
        blocks = -(-rows // self.a.tile[0]) * -(-p.hdim_v // self.a.tile[3]) * self.plan.splits
        return Expected((blocks, heads, p.batch), self.threads(), members)

    def combine(self) -> Expected:
        p = self.p
        o = {k.replace("stride_o", "row_stride_o") if k == "stride_o" else k: v for k, v in self.o().items()}
        acc = self.accumulators()
        members = {
            "o_ptr": "o",
            "seqlen_q": -1 if self.group else self.rows,
            "hdim_v": p.hdim_v,
            "row_stride_o_acc": p.hdim_v,
            **self.without_batch(o),
            **acc,
            **self.lse(),
        }
        if self.k.signature.qscale.value == "tensor":
            members["scale_o"] = self.quant()["scale_o"]
        if self.group:
            members["seqstart_q_ptr"] = "seqstart_q"
        columns = self.a.tile[0]
        most = next(n for n in (8, 16, 32, 64, 128) if self.plan.splits <= n)
        threads_per_row = columns // (16 // 4)
        rows_per_block = (32 if self.wave32 else 64) // threads_per_row
        assert most >= self.plan.splits
        blocks = -(-max(self.q_lengths) // rows_per_block) * -(-p.hdim_v // columns)
        return Expected((blocks, p.heads, p.batch), 128 if self.wave32 else 256, members)

    def appendkv(self) -> Expected:
        p = self.p
        new = {
            **self.tensor("knew", p.kv_heads, p.append, p.hdim),
            **self.tensor("vnew", p.kv_heads, p.append, p.hdim_v),
        }
        members = {
            "q_ptr": "q_rotated" if p.rotary.dim else "q",
            "k_ptr": "k",
            "v_ptr": "v",
            "knew_ptr": "k_new",
            "vnew_ptr": "v_new",
            "seqlen_k_ptr": "cache_seqlens",
            "seqlen_q": self.rows,
            "seqlen_k": -1,
            "seqlen_knew": p.append,
            "hdim_q": p.hdim,
            "hdim_v": p.hdim_v,
            "num_head_q": p.heads,
            "nhead_ratio_qk": p.heads // p.kv_heads,
            **self.q(),
            **self.kv("k", p.hdim),
            **self.kv("v", p.hdim_v),
            **new,
        }
        if p.rotary.dim:
            members |= {"rotary_cos_ptr": "rotary_cos", "rotary_sin_ptr": "rotary_sin"}
            members |= {"rotary_dim": p.rotary.dim, "has_mask": True}
        if p.paged:
            members |= {k: v for k, v in self.pages().items() if k != "is_gappy"}
        else:
            members["cache_batch_idx"] = None
        blocks = max(-(-self.rows // self.a.tile[0]), -(-p.append // self.a.tile[1]))
        return Expected((blocks, p.heads, p.batch), 256, members)

    def prefill(self) -> Expected:
        p = self.p
        members = {
            **self.forward(),
            **({"seqstart_q_ptr": "seqstart_q"} if self.group else {}),
            "kv_indptr": "kv_indptr",
            "kv_page_indices": "kv_page_indices",
            "num_total_pages": sum(self.k_lengths) + 1,
            "seqlen_k": -1,  # the kernel counts its pages
            **self.page_steps(),
        }
        for name, dim in (("k", p.hdim), ("v", p.hdim_v)):  # the page holds one key
            members |= {f"stride_{name}": p.kv_heads * dim, f"batch_stride_{name}": p.kv_heads * dim}
        tiles = self.tiles()
        grid = (p.heads, p.batch, tiles) if self.group else (tiles, p.heads, p.batch)
        return Expected(grid, self.threads(), members)

    # ---- backward ----

    def dot(self) -> Expected:
        p = self.p
        do = {**self.o("do"), **self.o()}
        members = {
            "o_ptr": "o",
            "do_ptr": "do",
            "d_ptr": "d",
            "p_undrop": float(np.float32(1.0 - float(np.float32(p.dropout)))),
            "seqlen_q": -1 if self.group else self.rows,
            "hdim_v": p.hdim_v,
            **self.without_batch(do),
            "nhead_stride_d": self.rows,
        }
        members |= self.packed_starts(keys=False) if self.group else {"batch_stride_d": p.heads * self.rows}
        return Expected((-(-max(self.q_lengths) // 64), p.heads, p.batch), 64, members)

    def packed_starts(self, *, keys: bool = True) -> Members:
        out: Members = {"seqstart_q_ptr": "seqstart_q", "seqlen_q_ptr": None, "cu_seqlen_q_ptr": None}
        if keys:
            out |= {"seqstart_k_ptr": "seqstart_k", "seqlen_k_ptr": None, "cu_seqlen_k_ptr": None}
        return out

    def dq_target(self) -> Members:
        """dq_acc has Q's layout; kernels for short queries write dQ directly."""
        own = self.a.max_seq_q > 0
        q = self.tensor("dq_acc", self.p.heads, self.rows, self.p.hdim)
        return {"dq_acc_ptr": "dq" if own else "dq_acc", **q}

    def parts(self) -> Members:
        if self.k.signature.deterministic.value != "yes":
            return {}
        batch = 1 if self.group else self.p.batch
        return {"split_stride_dq_acc": batch * self.p.heads * self.rows * self.p.hdim}

    def bwd(self) -> Expected:
        p = self.p
        wide = p.kv_heads != p.heads
        strides = {
            **self.q(),
            **self.kv("k", p.hdim),
            **self.kv("v", p.hdim_v),
            **self.o("do"),
            **self.tensor("dk", p.heads, self.keys, p.hdim),
            **self.tensor("dv", p.heads, self.keys, p.hdim_v),
        }
        target = self.dq_target()
        members = {
            "q_ptr": "q",
            "k_ptr": "k",
            "v_ptr": "v",
            "lse_ptr": "lse",
            "do_ptr": "do",
            "d_ptr": "d",
            "dk_ptr": "dk_heads" if wide else "dk",
            "dv_ptr": "dv_heads" if wide else "dv",
            **self.sizes(),
            "raw_scale": float(np.float32(p.scale)),
            "scale": float(np.float32(float(np.float32(p.scale)) * LOG2E)),
            **self.without_batch({**strides, **target}),
            "nhead_stride_lsed": self.rows,
            **self.bias(),
            **self.dbias(),
            **self.mask(),
            **self.dropout(backward=True),
            **self.parts(),
        }
        members |= self.packed_starts() if self.group else {"batch_stride_lsed": p.heads * self.rows}
        blocks = 1 if self.a.max_seq_q else -(-max(self.k_lengths) // self.a.tile[1])
        return Expected((blocks, p.heads, p.batch), self.threads(), members)

    def dbias(self) -> Members:
        p = self.p
        if not p.dbias:
            return {}
        plane = p.seqlen_q * p.seqlen_k
        out = {"dbias_ptr": "dbias", "stride_dbias": p.seqlen_k, "nhead_stride_dbias": plane if p.heads > 1 else 0}
        return out if self.group else out | {"batch_stride_dbias": p.heads * plane if p.batch > 1 else 0}

    def convert(self) -> Expected:
        p = self.p
        q = self.tensor("dq", p.heads, self.rows, p.hdim)
        members = {
            "dq_acc_ptr": "dq_acc",
            "dq_ptr": "dq",
            "seqlen_q": -1 if self.group else self.rows,
            "seqlen_k": -1 if self.group else p.seqlen_k,
            "hdim_q": p.hdim,
            **self.without_batch({**q, **self.tensor("dq_acc", p.heads, self.rows, p.hdim)}),
            **self.parts(),
            **(self.packed_starts() if self.group else {}),
        }
        return Expected((-(-max(self.q_lengths) // 64), p.heads, p.batch), 256, members)


def problem_of(line: str) -> Problem:
    """The problem that a command line describes."""
    return Problem.from_cli(line)
