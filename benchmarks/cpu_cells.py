"""The cells of ``cpu_attention.py``: problems of the CPU kernels, and the goal of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fmha_cli.domain.problem import Problem


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A problem with its floors. A goal of None is not required.

    Attributes:
        regime: a name that related cells share.
        flags: the problem.
        share: of the ceiling of the kernel's own instructions; of the read sweep for decode.
        aim: the share that is aimed at.
        ahead: whether every peer must take longer.
        torch: how many times as long PyTorch must take on Zen 5, in its best form.
        base: a problem of our own in the same rounds; ``most`` is the largest time relative to it, each for a unit of work and
            thread.
        base_threads: of the base, if it is not the number of the others.
        microseconds: the longest time.
        isa: held to this instruction set, the peers too; None for the machine's best.
    """

    regime: str
    flags: str
    share: float | None = None
    aim: float | None = None
    ahead: bool = False
    torch: float | None = None
    base: str | None = None
    base_threads: int | None = None
    most: float | None = None
    microseconds: float | None = None
    isa: str | None = None

    @property
    def problem(self) -> Problem:
        return Problem.from_cli(self.flags)


FORWARD = ("-H 16 -s 1024 -d 64", "-H 16 -s 1024 -d 128", "-H 8 -s 4096 -d 128")
DECODE = "-b 4 -H 32 --kv-heads 8 -s 1 --seqlen-k 8192 -d 128"
BYTES = "-b 4 -H 8 --kv-heads 8 -s 1 --cache-seqlens 8192 -d 128 --dtype bf16"
CACHE = "-b 4 -H 32 --kv-heads 8 -s 1 --cache-seqlens 8192 -d 128"

BYTES_MOST = 2 / 1.7
"""The time of a byte of an 8-bit cache relative to one of a bf16 cache: there are half as many, and the whole must be 1.7 x as fast."""


def cells() -> Iterator[Cell]:
    """All cells, in the order of the table."""
    yield from _forward()
    yield from _features()
    yield from _backward()
    yield from _avx2()
    yield from _decode()
    yield from _growth()


def _forward() -> Iterator[Cell]:
    limits = {
        ("fp32", 0): (0.88, 0.92),
        ("fp32", 1): (0.82, 0.90),
        ("bf16", 0): (0.82, 0.88),
        ("bf16", 1): (0.76, 0.84),
    }
    for (dtype, causal), (share, aim) in limits.items():
        for shape in FORWARD:
            least = 0.85 if (dtype, causal, shape) == ("bf16", 0, FORWARD[1]) else share
            flags = f"{shape} --dtype {dtype}{' --causal' * causal}"
            regime = f"forward {dtype} {'causal' if causal else 'full'}"
            yield Cell(regime=regime, flags=flags, share=least, aim=aim, ahead=True)
    for dtype, share, aim in (("fp32", 0.75, 0.80), ("bf16", 0.65, 0.72)):
        flags = f"-b 4 -H 16 -s 512 -d 64 --dtype {dtype} --causal"
        yield Cell(regime=f"forward {dtype} causal S=512", flags=flags, share=share, aim=aim, ahead=True)
    for dtype in ("fp32", "bf16"):
        yield Cell(regime=f"one small call {dtype}", flags=f"-H 1 -s 64 -d 64 --dtype {dtype}", microseconds=10)


def _features() -> Iterator[Cell]:
    packed = "--seqlens-q 2048,1024,512,512"
    for dtype, hdim in (("fp32", 128), ("fp32", 64), ("bf16", 128), ("bf16", 64)):
        plain = f"-H 16 -s 2048 -d {hdim} --dtype {dtype}"
        for name, flags in {
            "softcap": f"{plain} --softcap 30",
            "ALiBi": f"{plain} --alibi",
            "GQA": f"{plain} --kv-heads 4",
            "packed": f"-H 16 {packed} -d {hdim} --dtype {dtype}",
        }.items():
            most = 1.15 if (name, dtype, hdim) == ("softcap", "bf16", 64) else 1.10
            yield Cell(regime=f"{name} against plain", flags=flags, base=plain, most=most)
    for dtype in ("fp32", "bf16"):
        plain = f"-H 4 -s 8192 -d 128 --dtype {dtype}"
        window = f"{plain} --mask window:1024,0"
        yield Cell(regime="window 1024 against causal", flags=window, base=f"{plain} --causal", most=1.10)


def _backward() -> Iterator[Cell]:
    limits = {
        ("fp32", 0): (0.84, 0.90, 2.2),
        ("fp32", 1): (0.76, 0.84, 2.6),
        ("bf16", 0): (0.80, 0.87, 2.0),
        ("bf16", 1): (0.70, 0.82, 2.0),
    }
    for (dtype, causal), (share, aim, torch) in limits.items():
        for shape in FORWARD:
            flags = f"{shape} --dtype {dtype} --direction bwd{' --causal' * causal}"
            regime = f"backward {dtype} {'causal' if causal else 'full'}"
            yield Cell(regime=regime, flags=flags, share=share, aim=aim, ahead=True, torch=torch)


def _avx2() -> Iterator[Cell]:
    for shape in FORWARD:
        for causal, share, aim in ((0, 0.85, 0.90), (1, 0.78, 0.85)):
            flags = f"{shape} --dtype fp32{' --causal' * causal}"
            regime = f"AVX2 fp32 {'causal' if causal else 'full'}"
            yield Cell(regime=regime, flags=flags, share=share, aim=aim, ahead=True, isa="avx2")


def _decode() -> Iterator[Cell]:
    for dtype in ("fp32", "bf16"):
        flags = f"{DECODE} --dtype {dtype}"
        yield Cell(regime=f"decode {dtype}", flags=flags, share=0.84, aim=0.90, ahead=True, torch=1.6)
    for dtype in ("fp32", "bf16"):
        linear = f"{CACHE} --kv-cache linear --dtype {dtype}"
        paged = f"{CACHE} --kv-cache paged:16 --dtype {dtype}"
        yield Cell(regime=f"pages of 16 {dtype} against linear", flags=paged, base=linear, most=1.10)
    for kv in ("fp8_e4m3", "fp8_e5m2", "int8"):
        for cache in ("linear", "paged:16"):
            base = f"{BYTES} --kv-cache {cache}"
            floor, aim = (0.84, 0.90) if cache == "linear" else (None, None)
            flags, regime = f"{base} --kv-dtype {kv}", f"{kv} cache against bf16 cache"
            yield Cell(regime=regime, flags=flags, share=floor, aim=aim, base=base, most=BYTES_MOST)


def _growth() -> Iterator[Cell]:
    for dtype in ("fp32", "bf16"):
        for mask in ("", " --causal"):
            base = f"-H 2 -s 2048 -d 64 --dtype {dtype}{mask}"
            for seqlen in (8192, 32768):
                flags = base.replace("2048", str(seqlen))
                regime = f"time per pair {'causal' if mask else 'full'} against S=2048"
                yield Cell(regime=regime, flags=flags, base=base, most=1.10)
    for direction in ("fwd", "bwd"):
        for dtype in ("fp32", "bf16"):
            flags = f"-H 8 -s 2048 -d 128 --dtype {dtype} --direction {direction}"
            yield Cell(
                regime=f"{direction} 2 threads against 1", flags=flags, base=flags, base_threads=1, most=1 / 0.90
            )
