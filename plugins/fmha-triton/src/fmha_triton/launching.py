"""The bytes of a stage's arguments, for both vendors' sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fmha_cli import api, plugin
from fmha_triton.arguments import values_of
from fmha_triton.emit import MAPS, arguments, divisible, map_dtype, rows_per_copy, swizzle_bytes
from fmha_triton.image import Descriptor, Image, Place, Value

_ELEMENTS = {"fp16": "FLOAT16", "bf16": "BFLOAT16"}


def packed_arguments(
    stage: plugin.Stage,
    image: Image,
    call: plugin.Call[None],
    encode: Callable[[plugin.TensorMap], bytes] | None = None,
    places: Sequence[Place] | None = None,
) -> bytes:
    """The bytes of a stage's arguments.

    Args:
        encode: returns the bytes of a TMA descriptor; None where there are none.
        places: the places of the arguments in the binary, where it records them.

    Raises:
        KernelFailure: K970, K974 (``Image.packed``); K973, a stride or an address differs from the compiler's
            assumption.
    """
    values: dict[str, Value] = {**values_of(stage.kernel, call, call.plan.splits)}
    check_divisible(stage.kernel, values)
    if encode is not None:
        values |= descriptors(stage.kernel, call, encode)
    return image.packed(values, places)


def descriptors(
    kernel: api.KernelSpec, call: plugin.Call[None], encode: Callable[[plugin.TensorMap], bytes]
) -> dict[str, Value]:
    """The TMA descriptors of a kernel by parameter."""
    out: dict[str, Value] = {}
    for argument in arguments(kernel):
        if argument.name not in MAPS:
            continue
        tensor, item = MAPS[argument.name], map_dtype(kernel, argument.name).bits // 8
        width = swizzle_bytes(kernel, argument.name)
        wanted = plugin.rows_map(
            call,
            tensor,
            (width // item, rows_per_copy(kernel, argument.name)),
            element=_ELEMENTS.get(call.tensor(tensor).dtype, "UINT8"),
            swizzle=f"{width}B",
            promotion="L2_128B",
        )
        strides = (*(step // item for step in reversed(wanted.strides)), 1)
        out[argument.name] = Descriptor(encode(wanted), tuple(reversed(wanted.shape)), strides)
    return out


def check_divisible(kernel: api.KernelSpec, values: Mapping[str, Value]) -> None:
    """Refuse values that break a promise to the compiler, which would read and write at wrong places.

    Raises:
        KernelFailure: K973.
    """
    marked = ((name, values[name], step) for name, step in divisible(kernel).items())
    odd = [f"{name} {value}" for name, value, step in marked if isinstance(value, int) and value % step]
    if odd:
        raise api.KernelFailure(
            f"{', '.join(odd)}: not a multiple of what the kernel is compiled for",
            code="K973",
            where=kernel.name,
            help="rows, heads and sequences must start at multiples of 16 bytes",
        )
