"""Faults in the assembly of Triton's attention kernel, launched alone on the emulator and judged by the error of O.

``python -m fmha_amdgpu_emu_tests.support.planted_triton ARCH CLASS SAMPLE REGISTERS SEED`` prints one JSON row for each fault, as
the check ``emulator_faults`` requires.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from triton.backends.amd.compiler import assemble_amdgcn

from fmha_amdgpu_emu_tests.support.anchor_reference import attention, row_error
from fmha_amdgpu_emu_tests.support.harness import WAVE32, tool
from fmha_amdgpu_emu_tests.support.machine import Program, Refused, device
from fmha_amdgpu_emu_tests.support.triton_attention import compiled
from tests.support.planted.assembly import Fault, faults, planted, trapped
from tests.support.planted.assembly_rows import chosen_of, rows
from tests.support.planted.outcomes import Places

NAME = "Triton attention d64 causal"
HEADS, QUERIES, KEYS, HDIM, BLOCK = 1, 70, 100, 64, (64, 32)
BUDGET = 2 * 2.0**-11
LIMIT = 1_000_000
"""The limit of instructions per wave: a hundred times what the kernel needs."""


@dataclass(frozen=True)
class Launched:
    """The result of a launch, in the terms of a record's verdict."""

    verdict: str
    findings: tuple[dict[str, Any], ...]
    note: str
    outputs: str = ""

    @property
    def places(self) -> Places:
        return Counter({(finding["kind"], finding["address"]): finding["count"] for finding in self.findings})


class TritonKernel:
    """A kernel from Triton's compiler for one architecture; see ``assembly_rows.Subject``."""

    def __init__(self, arch: str, folder: Path) -> None:
        self.arch, self._folder = arch, folder
        self._kernel = compiled(arch, "fp16", causal=True, hdim=HDIM, block_m=BLOCK[0], block_n=BLOCK[1])
        self.text: str = self._kernel.asm["amdgcn"]
        rng = np.random.default_rng(3)
        self._inputs = [rng.standard_normal((HEADS, n, HDIM)).astype(np.float16) for n in (QUERIES, KEYS, KEYS)]
        wide = [x.astype(np.float64) for x in self._inputs]
        self._wanted, _, _ = attention(wide[0], wide[1], wide[2], HDIM**-0.5, causal=True)
        self._plain_strict: Places | None = None

    @cached_property
    def plain(self) -> Launched:
        """The unchanged text, assembled again."""
        return self.run()

    def run(self, *faults: Fault, strict: bool = False) -> Launched:
        """Run the kernel with faults. Raises ValueError if it does not assemble."""
        return self._launched(planted(self.text, *faults), strict)

    def reaches(self, fault: Fault) -> bool:
        """Whether any wave reaches the place of the fault."""
        return "s_trap" in self._launched(trapped(self.text, fault)).note

    def strictly(self, fault: Fault) -> Places:
        """The findings of the fault alone if reads must be waited for before a barrier."""
        if self._plain_strict is None:
            self._plain_strict = self.run(strict=True).places
        return self.run(fault, strict=True).places - self._plain_strict

    def _assembled(self, text: str) -> bytes:
        """A code object from Triton's own LLVM, because released versions reject some of its output."""
        source, out = self._folder / "planted.o", self._folder / "planted.co"
        try:
            source.write_bytes(assemble_amdgcn(text, self.arch, ""))
        except RuntimeError as refused:
            raise ValueError(str(refused)) from refused
        subprocess.run((tool("ld.lld-22", "ld.lld"), "-shared", str(source), "-o", str(out)), check=True)
        return out.read_bytes()

    def _launched(self, text: str, strict: bool = False) -> Launched:
        program = Program(self._assembled(text))
        q, k, v = self._inputs
        o, lse = np.full((HEADS, QUERIES, HDIM), np.nan, np.float16), np.full((HEADS, QUERIES), np.nan, np.float32)
        bits = int(np.float32(HDIM**-0.5 * math.log2(math.e)).view(np.uint32))
        none = np.zeros(0, np.uint32)
        lanes = 32 if self.arch in WAVE32 else 64
        about = self._kernel.metadata
        refused = ""
        with ExitStack() as live:
            for array, name in ((q, "q"), (k, "k"), (v, "v"), (o, "o"), (lse, "lse")):
                live.enter_context(device(array.view(np.uint8), name, writable=name in ("o", "lse")))
            numbers = (QUERIES, KEYS, bits, QUERIES * HDIM, KEYS * HDIM)
            try:
                seen = program.launch(
                    about.name, (-(-QUERIES // BLOCK[0]), HEADS, 1), (about.num_warps * lanes, 1, 1),
                    *(q, k, v, o, lse, *numbers, none, none), lds=about.shared, strict=strict, limit=LIMIT,
                )  # fmt: skip
            except Refused as stopped:
                seen, refused = program.observed(), str(stopped)
        program.close()
        findings = tuple(seen["findings"])
        outputs = o.tobytes().hex() + lse.tobytes().hex()
        if refused:
            return Launched("TIMED_OUT" if "the limit" in refused else "LAUNCH_FAILED", findings, refused, outputs)
        with np.errstate(all="ignore"):
            wrong = not row_error(o.astype(np.float64), self._wanted) < BUDGET or not np.isfinite(lse).all()
        return Launched("HAZARD" if findings else "WRONG" if wrong else "PASSED", findings, "", outputs)


def main(arch: str, wanted: str, count: str, registers: str, seed: str) -> None:
    """Print the rows."""
    with tempfile.TemporaryDirectory() as folder:
        kernel = TritonKernel(arch, Path(folder))
        assert (kernel.plain.verdict, kernel.plain.findings) == ("PASSED", ()), kernel.plain
        every = faults(kernel.text, arch, HDIM * 2)
        chosen = chosen_of(every, wanted, int(count) if count else None, int(registers), int(seed))
        for row in rows(kernel, chosen, every):
            print(json.dumps({"kernel": f"{arch} {NAME}", **row}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
