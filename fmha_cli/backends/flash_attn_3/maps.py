"""TMA descriptors of tensors of rows, as CuTe makes them (``make_tma_copy``)."""

from __future__ import annotations

from fmha_cli.backends.cuda.tensor_maps import TensorMap
from fmha_cli.backends.flash_attn_3.situation import Fa3Situation
from fmha_cli.backends.gpu.call import Call, Strides
from fmha_cli.domain.dtypes import DType

_ELEMENTS = {DType.FP16: "FLOAT16", DType.BF16: "BFLOAT16", DType.FP8_E4M3: "UINT8"}
_SWIZZLES = (128, 64, 32)


def map_of(dtype: DType, address: int, shape: tuple[int, ...], strides: Strides, width: int, rows: int) -> TensorMap:
    """The descriptor of a tensor of rows.

    Args:
        shape: (rows, width, heads, batch) and, of O, splits.
        width: columns of a tile. The swizzle is the widest that divides its bytes (``ss_smem_selector``).
        rows: rows of a copy.
    """
    size = 1 if dtype is DType.FP8_E4M3 else 2
    swizzle = next(n for n in _SWIZZLES if width * size % n == 0)
    rest = len(shape) - 2
    outer = [stride * size for stride in (*strides_of(strides), 0)]
    return TensorMap(
        address=address,
        element=_ELEMENTS[dtype],
        shape=(shape[1], shape[0], *shape[2:]),
        strides=tuple(outer[: rest + 1]),
        box=(swizzle // size, rows, *(1,) * rest),
        swizzle=f"{swizzle}B",
        promotion="L2_128B",
    )


def strides_of(strides: Strides) -> tuple[int, int, int]:
    """Strides in the order of a CuTe tensor: row, head, batch."""
    return strides.row, strides.head, strides.batch


def lse_strides(call: Call[Fa3Situation], dense: tuple[int, int]) -> tuple[int, int]:
    """The strides of head and sequence of LSE, which may have gaps between its rows; ``dense`` are those of scratch memory.

    Upstream's host code makes a dense tensor. Its kernels take any strides of these two axes.
    """
    if "lse" not in call.tensors:
        return dense
    *batch, head, _ = call.tensor("lse").strides
    return head, batch[0] if batch and not call.situation.packed_q else 0
