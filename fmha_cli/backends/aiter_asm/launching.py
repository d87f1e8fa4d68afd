"""The plan around a kernel, its launch and arguments.

Source: ``hsa/{gfx942,gfx950}/fmha_v3_fwd/codegen.py`` ``fmha_fwd_v3_dispatcher``, ``fmha_fwd_v3_group_dispatcher``,
``launch_kernel``, ``launch_kernel_group``; ``csrc/py_itfs_cu/asm_mha_fwd.cu`` and ``asm_mha_varlen_fwd.cu``.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from fmha_cli.backends.aiter_asm.rules import is_packed
from fmha_cli.backends.gpu.index import SmallSituation
from fmha_cli.backends.gpu.launching import Launch, launch_detail
from fmha_cli.codegen.aiter_asm.facts import algorithm_of, facts_of
from fmha_cli.codegen.aiter_asm.params import AiterForward
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import Mode
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Plan, Stage, Workspace
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import MaskKey
from fmha_cli.domain.tensors import lse_shape

if TYPE_CHECKING:
    from fmha_cli.backends.gpu.call import Call

WIDTH, FLOAT = 2, 4
"""Bytes of bf16, and of an element of LSE."""
TUNED, FOR_ODD_HEADS = 5, 3
LONG = 16384
COPY = "lse_copy"


def launch(kernel: KernelSpec, p: Problem) -> Launch:
    """A causal kernel takes two tiles of rows in each work-group, the first and the last that are left."""
    tiles = -(-max(p.query_lengths(), default=0) // algorithm_of(kernel).tile[0])
    groups = -(-tiles // 2) if kernel.signature.mask is MaskKey.CAUSAL else tiles
    grid = (p.heads, p.batch, groups) if is_packed(kernel) else (groups, p.heads, p.batch)
    return Launch(grid, (facts_of(kernel).threads, 1, 1))


def plan_of(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
    shape, launched = launch(kernel, problem), launches(SmallSituation(problem, device))
    detail = launch_detail(shape.grid, prod(shape.block), shape.shared, facts_of(kernel).symbol, launched=launched)
    spaces = (Workspace(COPY, prod(lse_shape(problem)) * FLOAT),) if copies_lse(problem) and launched else ()
    return Plan(problem, (Stage(kernel, detail),), spaces)


def copies_lse(p: Problem) -> bool:
    """Whether the kernel writes LSE to a copy. It has one stride for LSE, from head to head, so sequences must follow without gaps."""
    return p.lse and p.mode is Mode.BATCH and p.batch > 1


def launch_of(stage: Stage, call: Call[Any]) -> Launch:
    return launch(stage.kernel, call.problem)


def launches(situation: SmallSituation) -> bool:
    """Upstream's host code launches nothing without keys."""
    return max(situation.problem.key_lengths(), default=0) > 0


def params_of(stage: Stage, call: Call[Any]) -> AiterForward:
    """The arguments, as upstream's host code makes them."""
    p, kernel = call.problem, stage.kernel
    rows, keys = max(p.query_lengths()), max(p.key_lengths())
    q, k, v, o = (call.rows(name) for name in ("q", "k", "v", "o"))
    lse_head = rows if copies_lse(p) else call.tensor("lse").strides[-2] if p.lse else 0
    lse = call.address(COPY if copies_lse(p) else "lse")
    odd = kernel.signature.mask is MaskKey.CAUSAL and (p.heads % 8 or rows > LONG)
    starts = {f"ptr_{name}seq{more}": call.address(f"seqstart_{name}") for name in "qk" for more in ("", "_padding")}
    return AiterForward(
        **{f"ptr_{name}": call.address(name) for name in ("o", "q", "k", "v")},
        ptr_lse=lse,
        scalar=p.scale,
        s_seq_len=rows,
        s_Seqs=q.row * WIDTH,
        s_Ts=algorithm_of(kernel).tile[0] * q.row * WIDTH,
        s_Hs=q.head * WIDTH,
        s_Bs=q.batch * WIDTH,
        s_gqa=p.heads // p.kv_heads,
        s_k_Seqs=k.row * WIDTH,
        s_k_Hs=k.head * WIDTH,
        s_k_Bs=k.batch * WIDTH,
        s_opt=FOR_ODD_HEADS if odd else TUNED,
        s_lse=int(p.lse),
        s_kv_seq_len=keys,
        s_qk_head_dim=p.hdim,
        s_v_head_dim=p.hdim_v,
        s_q_head_num=p.heads,
        s_v_Seqs=v.row * WIDTH,
        s_v_Hs=v.head * WIDTH,
        s_v_Bs=v.batch * WIDTH,
        s_o_Seqs=o.row * WIDTH,
        s_o_Hs=o.head * WIDTH,
        s_o_Bs=o.batch * WIDTH,
        s_lse_Hs=lse_head * FLOAT,
        **starts,
    )
