"""Argument blocks in which all field values differ, and the values that the kernel's members must get."""

from __future__ import annotations

import math
import struct
from typing import Any

from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm
from fmha_cli.codegen.ck_tile.args import args_of
from fmha_cli.codegen.ck_tile.emit import unit_of
from fmha_cli.codegen.ck_tile.features import grouped, masked
from fmha_cli.codegen.struct import c_fields
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.signature import Need

BATCH, HEADS, KV_HEADS, ROWS, KEYS = 5, 12, 3, 640, 1280
SEED, OFFSET = 2**63 + 12345, 2**62 + 54321
ANOTHER_NAME = {
    "num_head_q": "nhead_q",
    "alibi_slope_ptr": "bias_ptr",
    "alibi_slope_stride": "stride_bias",
    "nhead_stride_d": "nhead_stride_lsed",
    "batch_stride_d": "batch_stride_lsed",
    "is_store_randval": "s_randval",
    "raw_scale": "scale",
}


def values_of(kernel: KernelSpec, *, seed_on_device: bool = False) -> dict[str, Any]:
    """Values that the kernel accepts, all different where it allows any value."""
    algorithm, signature = kernel.algorithm, kernel.signature
    assert isinstance(algorithm, CkAlgorithm)
    unused = set(unit_of(kernel).call.unused)
    out: dict[str, Any] = {}
    for index, (name, kind) in enumerate(c_fields(args_of(kernel.family))):
        if kind.spelling.endswith("*"):
            out[name] = 0x7F00_0000_0000 + 0x10000 * index
        elif kind.spelling == "float":
            out[name] = 0.5 + index / 1024
        else:
            out[name] = 1_000_000 + 7919 * index
    rows = algorithm.max_seq_q or ROWS
    out |= {"seqlen_q": rows, "seqlen_k": KEYS, "max_seqlen_q": rows + 64, "max_seqlen_k": KEYS + 128, "batch": BATCH}
    out |= {"hdim_q": signature.hdim, "hdim_v": signature.hdim_v, "nhead_q": HEADS, "nhead_k": KV_HEADS}
    out |= {"mask_type": 2 if masked(kernel) else 0, "window_size_left": 77, "window_size_right": 33}
    out |= {"drop_seed": SEED, "drop_offset": OFFSET, "drop_from_device": int(seed_on_device), "s_randval": 1}
    out |= {"p_drop": 0.25, "p_undrop": 0.75, "logits_soft_cap": 30.0}
    if signature.qscale.value != "tensor":
        out |= {"scale_p": 1.0, "scale_o": 1.0}
    if grouped(kernel):  # incompatible with per-sequence lengths
        out |= {"cu_seqlen_q_ptr": 0, "cu_seqlen_k_ptr": 0}
    elif not algorithm.pad_sk:  # the keys must fill whole tiles
        out["cu_seqlen_k_ptr"] = 0
    return {name: 0 if name in unused else out[name] for name, _ in c_fields(args_of(kernel.family))}


def members_of(kernel: KernelSpec, values: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """The expected value of each of these members."""
    return {name: _member(kernel, values, name) for name in names}


def _member(kernel: KernelSpec, values: dict[str, Any], name: str) -> Any:
    algorithm = kernel.algorithm
    assert isinstance(algorithm, CkAlgorithm)
    keep = single(1.0 - values.get("p_drop", 0.0))
    if name in ("seqlen_q", "seqlen_k") and grouped(kernel):
        return -1
    if name == "batch_stride_lse" and grouped(kernel):
        return 0  # the struct has it in both modes, but group mode does not set it
    if name.endswith(("rand_val_ptr", "randval")) and not name.startswith("is_") and not stored(kernel):
        return 0
    if name in ("drop_seed", "drop_offset"):
        return values[f"{name}_ptr" if values["drop_from_device"] else name]
    if name == "split_stride_dq_acc":  # a kernel that writes dQ directly has no parts
        return 0 if algorithm.max_seq_q else values[name]
    if name.endswith("dq_acc") or name == "dq_acc_ptr":
        return values[name.replace("dq_acc", "dq") if algorithm.max_seq_q else name]
    derived = {
        "nhead_ratio_qk": HEADS // KV_HEADS,
        "scale_s": single(single(values.get("scale_s", 0)) * math.log2(math.e)),
        "scale": single(single(values.get("scale", 0)) * math.log2(math.e)),
        "logits_soft_cap_rcp": single(1 / 30.0),
        "rp_undrop": single(1 / keep),
        "scale_rp_undrop": single(single(1 / keep) * single(values.get("scale", 0))),
        "p_undrop_in_uint8_t": math.floor(keep * 255),
        "is_drop_seed_offset_from_host": not values.get("drop_from_device", 0),
    }
    if name in derived:
        return derived[name]
    given = values[ANOTHER_NAME.get(name, name)]
    return bool(given) if name == "is_store_randval" else single(given) if isinstance(given, float) else given


def stored(kernel: KernelSpec) -> bool:
    """Whether the kernel writes the random bytes."""
    assert isinstance(kernel.algorithm, CkAlgorithm)
    return kernel.signature.dropout is Need.YES and (
        kernel.algorithm.store_randval or not kernel.family.value.startswith("bwd")
    )


def single(value: float) -> float:
    """Rounded to single precision."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])
