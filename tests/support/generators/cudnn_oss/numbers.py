"""Each number that a kernel of cuDNN's reads, by name, with a change as a plausible mistake would make it."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fmha_cli.backends.cuda.tensor_maps import TensorMap
from fmha_cli.codegen.cudnn_oss.params import BLOCKS
from fmha_cli.codegen.struct import c_fields
from tests.support.fakes.played_maps import played_map, read_map

ARCHS = {"sm90": "sm_90a", "sm100": "sm_100a"}
FEW = "-b 2 -H 4 --kv-heads 2 -s 512 -d 64 --dtype bf16 --causal --lse"
MANY = "-b 3 -H 100 --kv-heads 1 -s 512 -d 64 --dtype bf16 --causal --lse"
"""More heads than have their keys in the L2 cache: they make a section and a remainder."""
UNREAD = {
    "attnDesc.b", "attnDesc.q_h", "attnDesc.k_h", "attnDesc.v_h", "attnDesc.d_qk", "attnDesc.d_v",
    "attnDesc.min_q_heads_per_kv", "total_blocks",
    *(f"desc_{name}.{field}" for name in ("max", "sum_exp") for field in ("num_dims", "dims[0]", "dims[1]")),
}  # fmt: skip
"""The inputs that no kernel reads."""
UNSEEN = {
    "attnDesc.s_kv": "with as many keys as rows it never shortens the loop over keys",
    "attnDesc.s_q": "sm_90 has the number of rows in the descriptors of maxima and sums too",
    "desc_max.dims[2]": "sm_100 reads attnDesc.s_q instead",
    "desc_sum_exp.dims[2]": "sm_100 reads attnDesc.s_q instead",
    "tma_q.element": "16 bits are 16 bits", "tma_k.element": "", "tma_v.element": "", "tma_o.element": "",
    "tma_q.fill": "no copy leaves a tensor", "tma_k.fill": "", "tma_v.fill": "", "tma_o.fill": "",
    "tma_q.promotion": "the L2 cache alone sees it", "tma_k.promotion": "", "tma_v.promotion": "", "tma_o.promotion": "",
}  # fmt: skip
"""What changes no result of these problems, and why."""
Change = Callable[[ctypes.Structure], None]


def leaves(engine: str) -> Iterator[tuple[str, Change]]:
    """Every number of a block by name, and a function that changes it."""
    for name, kind in c_fields(BLOCKS[engine]):
        if kind.spelling == "CUtensorMap":
            yield from ((f"{name}.{part}", change) for part, change in _map_changes(name))
        elif issubclass(kind.ctype, ctypes.Structure):
            yield from _inside(name, kind.ctype)
        else:
            yield name, _setting(name, lambda value, kind=kind: _other(value, kind.ctype))


def _other(value: Any, ctype: Any) -> Any:
    if ctype is ctypes.c_float:
        return 0.0 if value == -float("inf") else value * 1.25
    return (value or 0) + (16 if ctype is ctypes.c_void_p else 1)


def _setting(name: str, change: Callable[[Any], Any]) -> Change:
    return lambda block: setattr(block, name, change(getattr(block, name)))


def _inside(name: str, ctype: Any) -> Iterator[tuple[str, Change]]:
    for part, kind, *_ in ctype._fields_:
        if not issubclass(kind, ctypes.Array):

            def one(block: Any, part: str = part) -> None:
                inside = getattr(block, name)
                value = getattr(inside, part)
                setattr(inside, part, value // 2 if part == "mul" else value - 1 if part == "s_q" else value + 1)

            yield f"{name}.{part}", one
            continue
        for axis in range(3):

            def change(block: Any, part: str = part, axis: int = axis) -> None:
                getattr(getattr(block, name), part)[axis] += -1 if part == "dims" else 8

            yield f"{name}.{part}[{axis}]", change


def _map_changes(name: str) -> Iterator[tuple[str, Change]]:
    others: dict[str, Callable[[TensorMap], TensorMap]] = {
        "address": lambda m: replace(m, address=m.address + 16),
        "element": lambda m: replace(m, element="FLOAT16" if m.element == "BFLOAT16" else "BFLOAT16"),
        "swizzle": lambda m: replace(m, swizzle="64B"),
        "fill": lambda m: replace(m, fill="NONE"),
        "promotion": lambda m: replace(m, promotion="L2_128B"),
    }
    for part, count in (("shape", 4), ("strides", 3), ("box", 2)):
        for axis in range(count):
            step = {"shape": -1, "strides": 16, "box": -8}[part]
            others[f"{part}[{axis}]"] = lambda m, part=part, axis=axis, step=step: replace(
                m, **{part: tuple(n + step * (i == axis) for i, n in enumerate(getattr(m, part)))}
            )
    for part, other in others.items():

        def change(block: Any, other: Callable[[TensorMap], TensorMap] = other) -> None:
            old = read_map(struct.pack("<16Q", *getattr(block, name)))
            setattr(block, name, struct.unpack("<16Q", played_map(other(old))))

        yield part, change
