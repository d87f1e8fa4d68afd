"""The expected launch of every family; see ``kargs_parts`` for its source."""

from __future__ import annotations

from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Plan
from tests.support.referees.ck_tile.kargs_bwd import Backward
from tests.support.referees.ck_tile.kargs_parts import Expected, Members, Parts


def expected(plan: Plan, kernel: KernelSpec) -> Expected:
    """The expected launch of one stage."""
    return _Reader(plan, kernel).launch()


class Forward(Parts):
    def forward(self) -> Members:
        p = self.p
        pointers = {"q_ptr": "q", "k_ptr": "k", "v_ptr": "v", "o_ptr": "o"}
        strides = {**self.q(), **self.kv("k", p.hdim), **self.kv("v", p.hdim_v), **self.o()}
        rest = {**self.bias(), **self.mask(), **self.lse(), **self.quant(), **self.dropout(), **self.softcap()}
        return {**pointers, **self.sizes(), "scale_s": self.scale(), **self.without_batch(strides), **rest}

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
            members["cache_batch_idx"] = None if p.cache_batch_idx is None else "cache_batch_idx"
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
            members["cache_batch_idx"] = None if p.cache_batch_idx is None else "cache_batch_idx"
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


class _Reader(Forward, Backward):
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
