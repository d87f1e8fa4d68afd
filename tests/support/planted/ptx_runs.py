"""Runs kernels with faults in their PTX like a user's kernel: built, judged and watched on an emulated device.

The text comes from the build cache, or is compiled once. A text with a fault is next to a copy of the artifact, where
the session looks for the kernel's own. A worker that dies or hangs costs one run; the next one gets a fresh worker.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from fmha_cli.api import Problem, Registry, Supported
from fmha_cli.plugin import DeviceFacts, Stage
from fmha_cli.toolchain.cache.layout import PTX
from tests.support.planted.statements import Fault, planted, trapped
from tests.support.planted.workers import PlantedWorkers, Seen

SECONDS = 6.0
PATIENCE = 5
"""A launch that takes longer is tried again with so many times the limit, and then counts as endless."""

DOES_NOT_LOAD = ("N009", "does not load", "PTX JIT compilation failed")
"""In the notes of a run whose PTX the emulator refuses: a fault that is not valid PTX."""


@dataclass(frozen=True)
class PtxKernel:
    """A kernel to plant faults in.

    Attributes:
        name: of the row. backend, arch, flags: what chooses it.
        stage: its place among the launches of the plan.
        kernels: what the name of the plan's main kernel holds, if it is not the first one.
    """

    name: str
    backend: str
    arch: str
    flags: str
    stage: int = 0
    kernels: str = ""


KERNELS = (
    PtxKernel("forward d32", "mem_efficient", "sm_80", "-b 1 -H 1 -s 40 --seqlen-k 70 -d 32"),
    PtxKernel("forward d64", "mem_efficient", "sm_80", "-b 1 -H 1 -s 40 --seqlen-k 70 -d 64"),
    PtxKernel("backward d32 causal", "mem_efficient", "sm_80", "-b 1 -H 1 -s 40 --seqlen-k 70 -d 32 --causal --direction bwd", stage=-1),
    PtxKernel("forward d64 causal", "cudnn_oss", "sm_90a", "-b 1 -H 1 -s 256 -d 64 --dtype bf16 --causal"),
    PtxKernel("forward d64 causal", "triton", "sm_80", "-b 1 -H 1 -s 70 --seqlen-k 100 -d 64 --causal"),
    PtxKernel("forward d64 causal", "triton", "sm_90a", "-b 1 -H 1 -s 70 --seqlen-k 100 -d 64 --causal"),
    *(
        PtxKernel(f"forward d{hdim} {dtype}{' causal' * bool(mask)}", "triton", "sm_100a", f"-b 1 -H 1 -s 256 -d {hdim} --dtype {dtype}{mask}")
        for hdim in (64, 128) for dtype in ("fp16", "bf16") for mask in ("", " --causal")
    ),
    PtxKernel("pair d64 fp8_e4m3 causal", "triton", "sm_100a", "-b 1 -H 1 -s 512 --seqlen-k 512 -d 64 --dtype fp8_e4m3 --causal --qscale tensor", kernels="num_ctas=2"),
)  # fmt: skip


def _named(kernel: PtxKernel, registry: Registry) -> str | None:
    """The name of the main kernel, if it is not the first one.

    Raises:
        ValueError: no kernel for the problem.
    """
    if not kernel.kernels:
        return None
    decisions = registry.backend(kernel.backend).decide(
        Problem.from_cli(kernel.flags), DeviceFacts.of_arch(kernel.arch)
    )
    fitting = [d for d in decisions if isinstance(d, Supported) and kernel.kernels in d.kernel.name]
    if not fitting:
        raise ValueError(f"no kernel's name holds {kernel.kernels}")
    return min(fitting, key=lambda d: d.rank).kernel.name


class PlantedPtx(PlantedWorkers):
    """One kernel, its text, and workers that run it with faults, one worker for each seed of the emulator.

    Raises on entry:
        EnvironmentProblem, KernelFailure: there is no compiler or source, or it does not build.
        ValueError: no kernel for the problem.
    """

    def __init__(self, kernel: PtxKernel, registry: Registry, folder: Path, seconds: float = SECONDS) -> None:
        super().__init__(kernel.backend, kernel.arch, kernel.flags, registry, folder, seconds, _named(kernel, registry))
        self.kernel = kernel

    def __enter__(self) -> Self:
        super().__enter__()
        self.text = self._artifact.path.with_name(PTX).read_text("utf-8")
        self.plain = self.run()
        return self

    def _place(self, stages: Sequence[Stage]) -> int:
        return self.kernel.stage % len(stages)

    def run(self, *faults: Fault, seed: int = 0) -> Seen:
        """Run the kernel with faults, or without any.

        Raises:
            ValueError: the emulator refuses the text.
        """
        return self._judged(planted(self.text, *faults), seed)

    def reaches(self, fault: Fault, *, guarded: bool = False) -> bool:
        """Whether any warp of this problem reaches the place of the fault, and its predicate lets a lane execute it."""
        return self._judged(trapped(self.text, fault, guarded=guarded), 0).verdict == "LAUNCH_FAILED"

    def _judged(self, text: str, seed: int) -> Seen:
        seen = self._once(text, seed)
        return self._once(text, seed, PATIENCE) if seen.verdict == "TIMED_OUT" else seen  # a busy machine is slow

    def _once(self, text: str, seed: int, patience: int = 1) -> Seen:
        assert self._request.timeout is not None
        request = replace(self._request, emu_seed=seed, timeout=self._request.timeout * patience)
        folder = self._folder / hashlib.sha256(text.encode()).hexdigest()[:24]
        folder.mkdir(exist_ok=True)
        path = shutil.copyfile(self._artifact.path, folder / self._artifact.path.name)
        folder.joinpath(PTX).write_text(text, "utf-8")
        try:
            seen = self._seen((seed, patience), request, replace(self._artifact, path=path))
        finally:
            shutil.rmtree(folder)
        if any(words in seen.note for words in DOES_NOT_LOAD):
            raise ValueError(seen.note)
        return seen
