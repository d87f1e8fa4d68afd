"""The parameter block and the launch of a plan's kernel, the plan's details of it, and its small arrays.

Source: ``attention_forward_generic.cu``, ``attention_backward_generic.cu``. One difference: upstream passes 0 keys for packed
sequences, so all heads of a forward pass share one dropout mask, which its backward pass does not repeat.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fmha_cli.backends.cuda.tables import Expected
from fmha_cli.backends.gpu.arithmetic import single
from fmha_cli.backends.gpu.call import Call
from fmha_cli.backends.gpu.launching import Launch
from fmha_cli.backends.mem_efficient.scratch import COPIES, Storage, storage_of
from fmha_cli.backends.mem_efficient.situation import MemEfficientSituation
from fmha_cli.codegen.mem_efficient.emit import block_of
from fmha_cli.codegen.mem_efficient.traits import traits_of
from fmha_cli.codegen.struct import c_fields
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Stage

WARP = 32
_TENSORS = {copy: name for name, copy in COPIES.items()}
"""The tensors by the names of the kernels' pointers."""
_STRIDES = {"do": "gO", "dq": "gQ", "dk": "gK", "dv": "gV"}
"""The beginnings of the names of strides that are not those of the tensors."""


def params_of(stage: Stage, call: Call[MemEfficientSituation]) -> object:
    """The stage's parameter block."""
    m, block = storage_of(call.problem, stage.kernel), block_of(stage.kernel)
    names = [name for name, _ in c_fields(block)]
    values = _numbers(m, call.situation) | _strides(m, call) | {"workspace": call.address("workspace")}
    for name in names:
        if name.endswith("_ptr"):
            stem = name.removesuffix("_ptr")
            values[name] = m.address(call, _TENSORS.get(stem, stem))
    return block(**{name: values[name] for name in names if name in values})


def _numbers(m: Storage, s: MemEfficientSituation) -> dict[str, Any]:
    p = m.problem
    return {
        "window_size": s.window,
        "scale": single(p.scale),
        "head_dim": m.hdims[0],
        "head_dim_value": m.hdims[1],
        "num_queries": p.seqlen_q,
        "num_keys": p.seqlen_k,
        "custom_mask_type": s.mask_type,
        "num_batches": p.batch,
        "num_heads": p.heads,
        "use_dropout": p.dropout > 0,
        "dropout_prob": single(p.dropout),
        "rng_engine_inputs": (p.seed, p.offset),
        "gQKV_strideM_multiplier": 1,
        "num_splits_key": m.splits,
        "delta_strideB": 0 if s.apart else p.heads * p.seqlen_q,
        "delta_strideH": s.rows if s.apart else p.seqlen_q,
    }


def _strides(m: Storage, call: Call[MemEfficientSituation]) -> dict[str, int]:
    """Strides of sequences (B), heads (H) and rows (M) by the fields' names; 0 where a bias is broadcast."""
    planes: dict[str, Any] = {"lse": m.scratch.get("logsumexp"), "gB": m.scratch.get("grad_bias")}
    planes["bias"] = m.scratch.get("attn_bias") or call.tensors.get("bias")
    every = {_STRIDES.get(name, name): (s.batch, s.head, s.row) for name, s in m.strides(call).items()}
    for field, tensor in planes.items():
        if tensor is not None:
            batch, head = (n if size > 1 else 0 for n, size in zip(tensor.strides[:2], tensor.shape, strict=False))
            shared = field == "bias" and 1 == tensor.shape[2] < m.problem.seqlen_q
            every[field] = batch, head, 0 if shared else tensor.strides[2]
    return {f"{field}_stride{axis}": n for field, ns in every.items() for axis, n in zip("BHM", ns, strict=True)}


def launch(kernel: KernelSpec, s: MemEfficientSituation) -> Launch:
    """The launch that serves a problem (``getBlocksGrid``, ``getThreadsGrid``, ``should_zero_workspace``).

    The grid: tiles of rows (backward: blocks that share the keys), heads, sequences. Blocks add to tiles of dQ in the
    workspace, and the last one does not give back its lock.
    """
    p, m = s.problem, storage_of(s.problem, kernel)
    t, threads = m.traits, m.traits.threads
    grid = (-(-p.seqlen_q // t.algorithm.tile[0]) if t.forward else m.splits, p.heads, p.batch)
    block = (WARP, threads // WARP, 1) if t.forward else (threads, 1, 1)
    adds = not t.forward and s.launches and (m.splits > 1 or s.window > 0)
    return Launch(grid, block, t.shared_bytes, cleared=("workspace",) if adds else ())


def details(kernel: KernelSpec, s: MemEfficientSituation) -> Iterator[tuple[str, str]]:
    """What a plan says about a launch, apart from its shape."""
    p, m = s.problem, storage_of(s.problem, kernel)
    t = m.traits
    yield "grid x", f"ceil({p.seqlen_q}/{t.algorithm.tile[0]})" if t.forward else "blocks that share the keys of a head"
    if t.dtype is DType.FP32:
        fast = t.algorithm.tag >= 80
        yield "fp32", "products of three TF32 terms on tensor cores" if fast else "single-precision multiply-add (SIMT)"
    if s.launches and m.copied:
        names = [COPIES[name] for name in m.copied]
        yield "copied by the host", f"{', '.join(names)}: {sum(m.scratch[name].nbytes for name in names)} bytes"
    if p.kv_heads < p.heads:
        yield "heads", "all read one key head" if m.shared else f"K and V repeated {p.heads // p.kv_heads} times"
    if not t.forward:
        yield "dq", "summed in a fixed order" if m.splits == 1 else "summed in no fixed order"


def auxiliaries_of(s: MemEfficientSituation) -> dict[str, Any]:
    """Where packed sequences start, and with a cache the keys of each."""
    name = "cu_seqlens" if s.problem.direction.backward else "seqstart"
    return s.arrays(f"{name}_q", f"{name}_k", "seqlen_k")


def expect_exports(kernel: KernelSpec) -> Expected:
    """The exports that the kernel's cubin must have."""
    t = traits_of(kernel)
    return Expected(
        symbol=t.name, block=block_of(kernel), facts=t.facts, threads=t.threads, shared_bytes=t.shared_bytes
    )
