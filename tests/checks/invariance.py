"""Whether results change with what is around a sequence: ``fmha validate --invariant`` of every backend, on emulated devices too.

A row is one property. It is good unless it breaks a promise, or a launch fails. Random problems run with ``--require``, so only
kernels that promise what is required serve them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.invariance import AROUND, Invariance
from fmha_cli.domain.problem import Problem
from fmha_cli.run.invariance import InvarianceProbe
from fmha_cli.run.request import Request
from tests.checks.check import Check, Row, product

PREFILL = "-b 3 -H 2 -s 70 -d 64 --causal --lse --dtype bf16"
CACHE = "-b 3 -H 4 --kv-heads 2 -s 1 -d 64 --lse --dtype bf16 --kv-cache paged:256 --cache-seqlens 600"
LONG = "-b 40 -H 4 --kv-heads 2 -s 1 --seqlen-k 640 -d 64 --lse --dtype bf16"


PROMISED = (Invariance.REPEATS, *(one for one in Invariance if one in AROUND), Invariance.THREADS, Invariance.UNITS)
SEED = 44


@dataclass(frozen=True)
class Around:
    """A problem of one backend.

    Attributes:
        drawn: whether it is a random one, with ``PROMISED`` required.
    """

    backend: str
    device: str
    flags: str
    drawn: bool = False

    @property
    def name(self) -> str:
        return f"{'random ' if self.drawn else ''}{self.backend} {self.device} {self.flags}"


CASES = (
    Around("cpu", "cpu", PREFILL),
    Around("cpu", "cpu", CACHE),
    Around("cpu", "cpu", LONG.replace("640", "8k")),
    Around("flash_attn", "emu:sm_80", PREFILL),
    Around("flash_attn", "emu:sm_80", f"{PREFILL} --splits 1"),
    Around("flash_attn", "emu:sm_80", CACHE),
    Around("flash_attn", "emu:sm_80", LONG),
    Around("mem_efficient", "emu:sm_80", PREFILL),
    Around("flash_attn_3", "emu:sm_90a", PREFILL),
    Around("cudnn_oss", "emu:sm_100a", PREFILL.replace("70", "256")),
    Around("ck_tile", "emu:gfx942", PREFILL),
    Around("ck_tile", "emu:gfx942", CACHE),
    Around("aiter_asm", "emu:gfx942", PREFILL.replace("-d 64", "-d 128")),
)


def draw_flags(draw: random.Random) -> str:
    """A small random problem of the kinds that CPU kernels serve."""
    rows, keys = draw.choice([1, 5, 33, 100, 300]), draw.choice([0, 0, 7, 257])
    words = ["-b", draw.choice("13"), "-H", draw.choice("24"), "--kv-heads", draw.choice("12"), "--lse"]
    words += ["-d", draw.choice(["24", "64", "128"]), "--dtype", draw.choice(["fp32", "fp16", "bf16"]), "-s", str(rows)]
    words += draw.choice([[], ["--causal"], ["--mask", "window:9,0"]])
    words += draw.choice([[], ["--softcap", "5"], ["--alibi"], ["--bias", "elementwise:bhss"]])
    words += draw.choice([[], [], ["--splits", "3"]]) if rows <= 5 else []
    held = str(rows + keys)
    return " ".join([*words, *draw.choice([["--seqlen-k", held], ["--kv-cache", "paged:16", "--cache-seqlens", held]])])


def draw_flash(draw: random.Random) -> str:
    """A small random problem of which FlashAttention-2's kernels promise something."""
    rows, keys = draw.choice([2, 17, 64, 70, 129]), draw.choice([0, 7, 64, 200])
    words = ["-b", draw.choice("13"), "-H", draw.choice("12"), "--kv-heads", "1", "-s", str(rows), "-d", "64", "--lse"]
    words += [*draw.choice([[], ["--causal"]]), "--splits", "1", "--layout", draw.choice(["bhsd", "bshd"])]
    held = str(rows + keys)
    return " ".join(
        [*words, *draw.choice([["--seqlen-k", held], ["--kv-cache", "paged:256", "--cache-seqlens", held]])]
    )


def cases() -> Iterator[Around]:
    """One problem of each kind, then random ones."""
    yield from CASES
    draw = random.Random(SEED)
    cpu, flash = [draw_flags(draw) for _ in range(150)], [draw_flash(draw) for _ in range(30)]
    yield from (Around("cpu", "cpu", flags, drawn=True) for flags in dict.fromkeys(cpu))
    yield from (Around("flash_attn", "emu:sm_80", flags, drawn=True) for flags in dict.fromkeys(flash))


def rows_of(around: Around) -> Iterator[Row]:
    """A row for each property."""
    required = PROMISED if around.drawn else ()
    request = Request(backend=around.backend, device=around.device, select="default", require=required)
    with InvarianceProbe(request, build_registry()) as probe:
        for row in probe.rows_of(Problem.from_cli(around.flags)):
            made: dict[str, Any] = {
                "backend": around.backend,
                "device": around.device,
                "flags": around.flags,
                "drawn": around.drawn,
                "verdict": None if row.verdict is None else row.verdict.value,
                "property": row.property.value,
                "outcome": row.outcome.value,
                "promised": row.promised,
                "stage": None if row.stage is None else row.stage.value,
                "change": row.change,
                "kernel": None if row.kernel is None else row.kernel.name,
                "changed_kernel": None if row.changed_kernel is None else row.changed_kernel.name,
                "splits": [row.splits, row.changed_splits],
                "difference": None if row.difference is None else str(row.difference),
                "reasons": [f"{reason.id} {reason.text}" for reason in row.reasons[:2]],
                "notes": list(row.notes[:2]),
            }
            yield made


CHECK = Check(
    cases=cases,
    name=lambda around: around.name,
    carry_out=rows_of,
    good=lambda row: row["outcome"] not in ("BROKEN", "FAILED", "NOT_RUN"),
    depends=lambda around: product("fmha-nvptx-emu", "fmha-amdgpu-emu"),
    by=("backend", "outcome"),
)
