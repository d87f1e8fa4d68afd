"""Runs kernels with faults in their PTX like a user's kernel: built, judged and watched on an emulated device.

The text comes from the build cache, or is compiled once. A text with a fault lies beside a copy of the artifact, where the session
looks for the kernel's own. A worker that dies or hangs costs one run; the next one gets a fresh worker.
"""

from __future__ import annotations

import hashlib
import shutil
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from planted_ptx import Fault, planted, trapped
from planted_runs import Seen

from fmha_cli.api import Artifact, BuildContext, Problem, Registry, cache_root, wanted_backends
from fmha_cli.domain.codec import to_json
from fmha_cli.execution.cases import Cases
from fmha_cli.execution.supervisor import Supervisor
from fmha_cli.oracle.fills import fill
from fmha_cli.toolchain.cache.layout import PTX
from fmha_cli.walk.builds import build_stages
from fmha_cli.walk.emulation import emulation_of
from fmha_cli.walk.execute import Executor
from fmha_cli.walk.probing import probe_backends
from fmha_cli.walk.request import Context, Request
from fmha_cli.walk.rows import plan_rows

SECONDS = 6.0
PATIENCE = 5
"""A launch that takes longer is tried again with so many times the limit, and then counts as endless."""

DOES_NOT_LOAD = "N009"
"""The error of a PTX that the emulator refuses: a fault that is no valid PTX."""


@dataclass(frozen=True)
class Kernel:
    """A kernel to plant faults in.

    Attributes:
        name: of the row. backend, arch, flags: what chooses it.
        stage: its place among the launches of the plan.
    """

    name: str
    backend: str
    arch: str
    flags: str
    stage: int = 0


KERNELS = (
    Kernel("forward d32", "mem_efficient", "sm_80", "-b 1 -H 1 -s 40 --seqlen-k 70 -d 32"),
    Kernel("forward d64", "mem_efficient", "sm_80", "-b 1 -H 1 -s 40 --seqlen-k 70 -d 64"),
    Kernel("backward d32 causal", "mem_efficient", "sm_80", "-b 1 -H 1 -s 40 --seqlen-k 70 -d 32 --causal --direction bwd", stage=-1),
    Kernel("forward d64 causal", "cudnn_oss", "sm_90a", "-b 1 -H 1 -s 256 -d 64 --dtype bf16 --causal"),
    Kernel("forward d64 causal", "triton", "sm_80", "-b 1 -H 1 -s 70 --seqlen-k 100 -d 64 --causal"),
    Kernel("forward d64 causal", "triton", "sm_90a", "-b 1 -H 1 -s 70 --seqlen-k 100 -d 64 --causal"),
)  # fmt: skip


class PlantedPtx(AbstractContextManager["PlantedPtx"]):
    """One kernel, its text, and workers that run it with faults, one worker for each seed of the emulator.

    Raises on entry:
        EnvironmentProblem, KernelFailure: there is no compiler or source, or it does not build.
        ValueError: no kernel for the problem.
    """

    def __init__(self, kernel: Kernel, registry: Registry, folder: Path, seconds: float = SECONDS) -> None:
        self.kernel = kernel
        self.problem = Problem.from_cli(kernel.flags)
        self._registry, self._folder = registry, folder
        self._out = folder / "outputs.safetensors"
        self._request = Request(
            backend=kernel.backend, device=f"emu:{kernel.arch}", timeout=seconds, out=str(self._out), emu_threads=1
        )
        self._stack = ExitStack()
        self._executors: dict[tuple[int, int], Executor] = {}

    def __enter__(self) -> PlantedPtx:
        request, registry = self._request, self._registry
        found = probe_backends(registry, wanted_backends(registry, request.wanted), None, request.device)
        (self._row,) = plan_rows([self.problem], request, registry, found)
        if self._row.plan is None:
            raise ValueError(f"no kernel for {self.problem.repro()} on {request.device}")
        stages = self._row.plan.stages
        self._stage = self.kernel.stage % len(stages)
        self._building = BuildContext(cache_root=cache_root(), jobs=2)
        built = build_stages(stages, registry, self._building)
        self._artifacts = tuple(_value(built[s.kernel.digest]) for s in stages)
        self.spec = stages[self._stage].kernel
        self.text = self._artifacts[self._stage].path.with_name(PTX).read_text("utf-8")
        self._emulation = emulation_of(request, registry, self._building)
        self.plain = self.run()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def run(self, *faults: Fault, seed: int = 0) -> Seen:
        """Run the kernel with faults, or without any.

        Raises:
            ValueError: the emulator refuses the text.
        """
        return self._judged(planted(self.text, *faults), seed)

    def reaches(self, fault: Fault, *, guarded: bool = False) -> bool:
        """Whether any warp of this problem reaches the place of the fault, and its predicate lets a lane execute it."""
        return "trap" in self._judged(trapped(self.text, fault, guarded=guarded), 0).note

    def _executor(self, seed: int, patience: int) -> Executor:
        key = seed, patience
        if key not in self._executors:
            assert self._request.timeout is not None
            limit = self._request.timeout * patience
            request = replace(self._request, threads=1, emu_seed=seed, timeout=limit)
            context = Context(
                request=request,
                registry=self._registry,
                supervisor=self._stack.enter_context(Supervisor()),
                building=self._building,
                emulation=emulation_of(request, self._registry, self._building),
            )
            cases = Cases(lambda problem, kind: fill(problem, kind, 0), oracle_s=60.0)
            self._executors[key] = Executor(context, cases, lambda row: None)
        return self._executors[key]

    def _judged(self, text: str, seed: int) -> Seen:
        seen = self._once(text, seed)
        return self._once(text, seed, PATIENCE) if seen.verdict == "TIMED_OUT" else seen  # a busy machine is slow

    def _once(self, text: str, seed: int, patience: int = 1) -> Seen:
        folder = self._folder / hashlib.sha256(text.encode()).hexdigest()[:24]
        folder.mkdir(exist_ok=True)
        self._out.unlink(missing_ok=True)
        artifacts = list(self._artifacts)
        held = artifacts[self._stage]
        path = shutil.copyfile(held.path, folder / held.path.name)
        folder.joinpath(PTX).write_text(text, "utf-8")
        artifacts[self._stage] = replace(held, path=path)
        try:
            fate = self._executor(seed, patience).run(self._row, tuple(artifacts), 0)
        finally:
            shutil.rmtree(folder)
        note = "; ".join(fate.notes)[:600]
        if DOES_NOT_LOAD in note or "does not load" in note:
            raise ValueError(note)
        outputs = hashlib.sha256(self._out.read_bytes()).hexdigest() if self._out.is_file() else ""
        return Seen(fate.verdict.value, tuple(to_json(finding) for finding in fate.findings or ()), note, outputs)


def _value(outcome: object) -> Artifact:
    error = getattr(outcome, "error", None)
    if error is not None:
        raise error
    artifact: Artifact = outcome.value  # type: ignore[attr-defined]
    return artifact
