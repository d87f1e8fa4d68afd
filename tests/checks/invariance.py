"""Whether results change with what is around a sequence: ``fmha validate --invariant`` of every backend, on emulated devices too.

A row is one property. It is good unless it breaks a promise, or a launch fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.problem import Problem
from fmha_cli.run.invariance import InvarianceProbe
from fmha_cli.run.request import Request
from tests.checks.check import Check, Row, product

PREFILL = "-b 3 -H 2 -s 70 -d 64 --causal --lse --dtype bf16"
CACHE = "-b 3 -H 4 --kv-heads 2 -s 1 -d 64 --lse --dtype bf16 --kv-cache paged:256 --cache-seqlens 600"
LONG = "-b 40 -H 4 --kv-heads 2 -s 1 --seqlen-k 640 -d 64 --lse --dtype bf16"


@dataclass(frozen=True)
class Around:
    """A problem of one backend."""

    backend: str
    device: str
    flags: str

    @property
    def name(self) -> str:
        return f"{self.backend} {self.device} {self.flags}"


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
)


def rows_of(around: Around) -> Iterator[Row]:
    """A row for each property."""
    request = Request(backend=around.backend, device=around.device, select="default")
    with InvarianceProbe(request, build_registry()) as probe:
        for row in probe.rows_of(Problem.from_cli(around.flags)):
            made: dict[str, Any] = {
                "backend": around.backend,
                "device": around.device,
                "flags": around.flags,
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
    cases=lambda: CASES,
    name=lambda around: around.name,
    carry_out=rows_of,
    good=lambda row: row["outcome"] not in ("BROKEN", "FAILED", "NOT_RUN"),
    depends=lambda around: product("fmha-nvptx-emu", "fmha-amdgpu-emu"),
    by=("backend", "outcome"),
)
