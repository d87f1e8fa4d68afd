"""Plant faults in the PTX of FlashAttention-3's kernels, and record how an emulated H100 catches them.

Four kernels and the one that adds up parts run as with ``fmha run``. At most two faults of each class of ``ptx.py`` are drawn for a kernel. A fault
is caught by name if there is a finding that the unchanged kernel does not have, or the message of a stopped launch; see ``nvptx_emulator_faults``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from fmha_cli.api import build_registry
from tests.checks.check import ROOT, Check, Row, product
from tests.checks.command import SCHEMA
from tests.checks.flash_attn_3_problems import PACKED
from tests.checks.flash_attn_3_readings import reading
from tests.support.planted.outcomes import explained, sampled, summary
from tests.support.planted.ptx import faults
from tests.support.planted.ptx_rows import rows
from tests.support.planted.ptx_runs import PlantedPtx, PtxKernel
from tools.result_data import write_json

SAMPLE, SEED = 2, 0
SECONDS = 1.0
"""Ten times what a launch takes. An endless one is tried again with five times that."""
_CACHE = "--kv-cache paged:16 --cache-seqlens 300,77 -b 2 --splits 1 --lse"


def _kernel(name: str, flags: str, stage: int = 0) -> PtxKernel:
    return PtxKernel(name, "flash_attn_3", "sm_90a", flags, stage)


KERNELS = (
    _kernel("forward d64 causal", "-H 1 -s 150 --seqlen-k 400 -d 64 --dtype bf16 --causal --lse --splits 1"),
    _kernel("forward d64 pages by cp.async", f"-H 4 --kv-heads 2 -s 3 -d 64 --dtype fp16 --causal {_CACHE}", stage=1),
    _kernel("forward d64 packed", f"{PACKED} -H 2 -d 64 --dtype fp16", stage=1),
    _kernel("backward d128 causal", "-H 4 --kv-heads 2 -s 130 --seqlen-k 70 -d 128 --dtype bf16 --causal --direction bwd", stage=1),
    _kernel("combine d64", "-H 8 --kv-heads 2 -s 3 --seqlen-k 1500 -d 64 --dtype fp16 --splits 5", stage=-1),
)  # fmt: skip
"""CI compiles the first one. The second reads by ``cp.async`` and packs query heads, and has the known hazard of that."""


def rows_of(kernel: PtxKernel) -> Iterator[Row]:
    """The rows of a kernel.

    Raises:
        ValueError: the unchanged kernel is not right.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        PlantedPtx(kernel, build_registry(), Path(folder), SECONDS) as subject,
    ):
        if subject.plain.verdict not in ("PASSED", "HAZARD"):
            raise ValueError(f"{kernel.name}, its text unchanged: {subject.plain}")
        every = faults(subject.text, subject.problem.hdim * subject.problem.dtype.bits // 8)
        for row in rows(subject, sampled(every, SAMPLE, SEED), every):
            yield {"kernel": kernel.name, "digest": subject.spec.digest, **row}


def keep(rows: Sequence[Row]) -> None:
    """Write the rows, with what reading says of those that nothing caught."""
    document = {
        "schema": SCHEMA,
        "check": "flash_attn_3_faults",
        "rows": [{**row, "reading": reading(row)} for row in rows],
    }
    write_json(ROOT / "results" / "data" / "flash_attn_3_faults.json.xz", document)


CHECK = Check(
    cases=lambda: KERNELS,
    name=lambda kernel: kernel.name,
    carry_out=rows_of,
    depends=lambda kernel: product("fmha-nvptx-emu"),
    good=explained,
    by=("fault", "caught"),
    summarise=summary,
    keep=keep,
)
