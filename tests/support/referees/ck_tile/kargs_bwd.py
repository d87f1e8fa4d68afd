"""The kernel arguments of the backward families; see ``kargs_parts``."""

from __future__ import annotations

import numpy as np

from tests.support.referees.ck_tile.kargs_parts import LOG2E, Expected, Members, Parts


class Backward(Parts):
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
