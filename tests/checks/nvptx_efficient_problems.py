"""The problems of ``nvptx_emulator.py`` for the memory-efficient and cuDNN's kernels: at least one kind for each kernel.

Source: upstream's order of its kernels, ``codegen/mem_efficient/traits.py``. Upstream takes the first kernel that fits, so some of
the backward kernels are never chosen on a device; these are asked for by upstream's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

EVEN = ("-s 256", "-s 256 --seqlen-k 384")
RAGGED = ("-s 130 --seqlen-k 150", "-s 141 --seqlen-k 190")
"""At least two blocks of queries and of keys for every kernel: the largest tile has 128 of each."""
DROPOUT = "--dropout 0.2 --seed 7 --offset 3"
ODD = ("-s 131 --seqlen-k 151", "-s 141 --seqlen-k 190")
"""Lengths for which a head of 4 n elements is not a multiple of 16 bytes."""


@dataclass(frozen=True)
class PtxKind:
    """One kind of kernel.

    Attributes:
        name: what its problems have in common.
        backend, device: what executes it.
        even, ragged: flags of the problems, each with its own lengths.
        kernel: the requested kernel; empty for the one that the backend takes.
    """

    name: str
    backend: str
    device: str
    even: tuple[str, ...]
    ragged: tuple[str, ...]
    kernel: str = ""

    @property
    def problems(self) -> tuple[str, ...]:
        return (*self.even, *self.ragged)


def cudnn_kinds() -> Iterator[PtxKind]:
    """cuDNN's kernels. They serve whole tiles of a causal mask alone (K611, K612)."""
    for hdim in (64, 128):
        lengths = tuple(f"-s {length} -b 1 -H 2 -d {hdim} --dtype bf16 --causal --lse" for length in (256, 384))
        yield PtxKind(f"fwd, causal, d{hdim} bf16", "cudnn_oss", "emu:sm_90a", lengths, ())


def efficient_kinds() -> Iterator[PtxKind]:
    """The kernels of sm_80 and later, then of sm_75. Of these, kernels also for heads that are not a multiple of 16
    bytes.
    """
    for dtype in ("fp16", "bf16", "fp32"):
        yield from (_one("emu:sm_80", dtype, hdim, "") for hdim in (64, 128, 256))
    for dtype in ("fp16", "bf16"):
        yield from _backward_16("emu:sm_80", dtype)
    yield from _backward_32()
    for dtype in ("fp16", "fp32"):
        yield from (_one("emu:sm_75", dtype, hdim, "") for hdim in (64, 128, 256))
        yield from (_one("emu:sm_75", dtype, hdim, DROPOUT, "bwd") for hdim in (32, 64, 128, 256))
        yield from (_one("emu:sm_75", dtype, hdim, "", "bwd") for hdim in (32, 64, 128, 256))
    yield from (_one("emu:sm_75", "fp16", hdim, "", lengths=ODD) for hdim in (60, 124, 252))


def _backward_16(device: str, dtype: str) -> Iterator[PtxKind]:
    """Of a 16-bit type: with and without dropout, and without it of even lengths."""
    for hdim in (32, 64, 128):
        yield _one(device, dtype, hdim, "", "bwd", even=True)
    for flags in ("", DROPOUT):
        yield from (_one(device, dtype, hdim, flags, "bwd") for hdim in (32, 64, 128, 256))
    yield _one("emu:sm_86", dtype, 96, "", "bwd")
    # The tiles of 128 x 128 do not fit an sm_86's shared memory.
    yield _one("emu:sm_86", dtype, 128, "", "bwd", even=True)
    for flags in ("", DROPOUT):
        yield _one("emu:sm_86", dtype, 128, flags, "bwd")
        yield _one(device, dtype, 256, flags, "bwd", kernel=_small_tiles(dtype, 65536, flags))


def _backward_32() -> Iterator[PtxKind]:
    for flags in ("", DROPOUT):
        yield from (_one("emu:sm_80", "fp32", hdim, flags, "bwd") for hdim in (32, 64, 128, 256))
        for hdim, most in ((128, 128), (256, 65536)):
            yield _one("emu:sm_80", "fp32", hdim, flags, "bwd", kernel=_small_tiles("fp32", most, flags))


def _small_tiles(dtype: str, most: int, flags: str) -> str:
    """The name of the backward kernel with tiles of 64 x 64."""
    drops = "dropout=any," if flags else ""
    return (
        f"mem_efficient:bwd_dq_dk_dv:sm_80:dtype={dtype},dtype_out={dtype},hdim={most},hdim_v={most},mode=any,mask=any,bias=any,"
        f"{drops}lse=any,gqa=any,deterministic=any,dbias=any:tag=80,aligned=yes,tile=64x64,max_k={most}"
    )


def _one(
    device: str,
    dtype: str,
    hdim: int,
    flags: str,
    direction: str = "fwd",
    *,
    even: bool = False,
    lengths: tuple[str, str] = RAGGED,
    kernel: str = "",
) -> PtxKind:
    common = " ".join(f"-b 1 -H 2 -d {hdim} --dtype {dtype} {flags} --direction {direction}".split())
    words = [
        direction,
        *["even"] * even,
        *["dropout"] * bool(flags),
        f"d{hdim} {dtype}",
        *["tiles of 64"] * bool(kernel),
    ]
    problems = tuple(f"{length} {common}" for length in (EVEN if even else lengths))
    return PtxKind(
        ", ".join(words), "mem_efficient", device, problems if even else (), () if even else problems, kernel
    )
