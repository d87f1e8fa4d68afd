"""The hand-written attention kernels that the tests run, their shapes, and their known faults.

Some of gfx950's kernels refill an LDS buffer that other waves may still be reading. There is no barrier between the
reads and the first load (or store) into the buffer, at the start of a work-group (``fwd_hd192_hd128_*``) or of its
second tile (``*_causal*``). On the device, the loads take longer than the reads. On the emulator, waves that each run
up to their next barrier read the wrong tile. With waves in step (``turn``), the numbers are right, and the race is
still reported.

gfx942's ``fwd_hd128_bf16[_causal][_group].co`` without a rounding in the name are left out. No table in upstream's host
code (``FmhaFwdV3Buf``) names them, and they take other arguments.
"""

from __future__ import annotations

from fmha_amdgpu_emu_tests.support.assembly_backward import Backward
from fmha_amdgpu_emu_tests.support.assembly_forward import Forward
from fmha_amdgpu_emu_tests.support.assembly_kernels import IN_STEP


def _forward(
    arch: str, name: str, *lengths: tuple[int, int], heads: tuple[int, int] = (2, 1), races: bool = False
) -> Forward:
    folder = "gfx942/fmha_v3_fwd/MI300" if arch == "gfx942" else "gfx950/fmha_v3_fwd"
    hdim = (192, 128) if "hd192" in name else (128, 128)
    return Forward(f"{folder}/fwd_{name}.co", lengths, heads, hdim, turn=IN_STEP if races else 0, races=races)


def _backward(
    arch: str, name: str, *lengths: tuple[int, int], heads: tuple[int, int] = (2, 2), races: bool = False
) -> Backward:
    hdim = int(name[2 : name.index("_")])
    tile = {64: 192, 128: 192 if arch == "gfx942" else 256, 192: 64}[hdim]
    turn = IN_STEP if races else 0
    return Backward(f"{arch}/fmha_v3_bwd/bwd_{name}.co", lengths, tile, heads, hdim, turn=turn, races=races)


RAGGED = ((200, 300), (300, 300), (64, 500))

QUICK_FORWARD = (
    _forward("gfx942", "hd128_bf16_rtne", (200, 300), (200, 300)),
    _forward("gfx942", "hd128_bf16_causal_rtna", (257, 257), heads=(8, 2)),
    _forward("gfx942", "hd128_bf16_causal_rtz_group", *RAGGED),
    _forward("gfx950", "hd128_bf16", (200, 300), (200, 300)),
    _forward("gfx950", "hd128_bf16_causal", (300, 300), races=True),
    _forward("gfx950", "hd128_bf16_group", *RAGGED),
    _forward("gfx950", "hd192_hd128_bf16_causal", (300, 300), races=True),
)
QUICK_BACKWARD = (
    _backward("gfx942", "hd128_fp16_a32", (256, 256)),
    _backward("gfx942", "hd128_bf16_causal_br_a32_rtne_psskddv", (200, 300), (200, 300), heads=(4, 2)),
    _backward("gfx942", "hd64_fp16_a16", (256, 256)),
    _backward("gfx942", "hd64_bf16_causal_br_a32_rtz_pssk_group", *RAGGED),
    _backward("gfx950", "hd128_bf16_a32_psskddv", (200, 300), (200, 300)),
    _backward("gfx950", "hd128_fp16_causal_br_a16_psskddv", (200, 300), races=True),
    _backward("gfx950", "hd64_fp16_causal_a32_pssk", (300, 300)),
    _backward("gfx950", "hd192_bf16_a32_rtne_psskddv", (200, 300)),
)

_FORWARD_SHAPES = (((1, 1),), ((64, 1000),), ((256, 256),), ((320, 384),), ((513, 513), (513, 513)))
_BACKWARD_SHAPES = (((1, 1),), ((64, 500),), ((256, 256),), ((320, 320), (320, 320)))


def _many_forward() -> tuple[Forward, ...]:
    out = []
    for arch, names in (
        ("gfx942", [f"hd128_bf16{mask}_{cvt}" for mask in ("", "_causal") for cvt in ("rtne", "rtna", "rtz")]),
        ("gfx950", [f"{hdim}_bf16{mask}" for hdim in ("hd128", "hd192_hd128") for mask in ("", "_causal")]),
    ):
        for name in names:
            races = arch == "gfx950" and name != "hd128_bf16"
            out += [_forward(arch, name, *lengths, heads=(4, 2), races=races) for lengths in _FORWARD_SHAPES]
            out.append(_forward(arch, f"{name}_group", *RAGGED, (1, 700), heads=(4, 2), races=races))
    return tuple(out)


def _many_backward() -> tuple[Backward, ...]:
    out = []
    for arch, names in (
        ("gfx942", ["hd128_fp16_a32_psskddv", "hd128_bf16_a32_rtna_psskddv", "hd64_fp16_a32_pssk",
                    "hd64_bf16_causal_br_a32_rtne_pssk", "hd128_fp16_causal_br_a32_psskddv",
                    "hd192_fp16_causal_br_a32_psskddv", "hd192_bf16_a32_rtz_psskddv"]),
        ("gfx950", ["hd128_fp16_a32_psskddv", "hd128_bf16_a16_psskddv", "hd128_bf16_causal_br_a32_psskddv",
                    "hd128_fp16_causal_br_a16_psskddv", "hd64_bf16_a32_rtna_pssk", "hd64_fp16_causal_br_a32_pssk",
                    "hd192_bf16_causal_br_a32_rtne_psskddv"]),
    ):  # fmt: skip
        for name in names:
            races = arch == "gfx950" and name.startswith("hd128") and "causal" in name
            out += [_backward(arch, name, *lengths, heads=(4, 2), races=races) for lengths in _BACKWARD_SHAPES]
    for name in ("hd128_fp16_a16", "hd128_bf16_causal_a16_rtne", "hd128_bf16_a32_rtz", "hd64_bf16_causal_a16_rtna"):
        out += [_backward("gfx942", name, (n, n)) for n in (64, 192, 448)]
    for arch, name in (
        ("gfx942", "hd128_fp16_a32_pssk_group"), ("gfx942", "hd128_bf16_causal_br_a32_rtna_pssk_group"),
        ("gfx950", "hd128_fp16_a32_psskddv_group"), ("gfx950", "hd64_bf16_causal_br_a32_rtne_pssk_group"),
    ):  # fmt: skip
        out.append(_backward(arch, name, *RAGGED))
    return tuple(out)


MANY_FORWARD = _many_forward()
MANY_BACKWARD = _many_backward()
