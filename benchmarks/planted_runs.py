"""Runs kernels with planted assembly faults like a user's kernel: built, judged and watched on an emulated device.

The kernel's text comes from the compiler and the flags that build the kernel. A text with a fault is assembled and
linked again, and replaces the code object in a copy of the kernel's library.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from planted_code import assembled, device_assembly, with_code_object
from planted_text import Fault, planted, trapped

from fmha_cli.api import Artifact, BuildContext, Problem, Registry, cache_root, wanted_backends
from fmha_cli.backends.ck_tile.building import workshop
from fmha_cli.domain.codec import to_json
from fmha_cli.execution.cases import Cases
from fmha_cli.execution.supervisor import Supervisor
from fmha_cli.oracle.fills import fill
from fmha_cli.toolchain.rocm.offload import code_objects
from fmha_cli.walk.builds import build_stages
from fmha_cli.walk.emulation import emulation_of
from fmha_cli.walk.execute import Executor
from fmha_cli.walk.probing import probe_backends
from fmha_cli.walk.request import Context, Request
from fmha_cli.walk.rows import plan_rows

SECONDS = 60.0
"""A launch that takes longer counts as endless: the fault broke a loop's exit."""

STRICT = "FMHA_EMU_STRICT"
"""The emulator's variable for strict launches: LDS reads outstanding at a barrier are not ordered by it."""


@dataclass(frozen=True)
class Kernel:
    """A kernel to plant faults in: the stage of family ``family`` of a problem on an architecture."""

    name: str
    arch: str
    flags: str
    family: str


KERNELS = (
    Kernel("fwd qr_async d64 causal", "gfx942", "-b 1 -H 1 -s 100 --seqlen-k 130 -d 56 --causal --splits 1", "fwd"),
    Kernel("fwd qr d64 causal", "gfx1201", "-b 1 -H 1 -s 100 --seqlen-k 130 -d 56 --causal --splits 1", "fwd"),
    Kernel("fwd qr_async_trload d128", "gfx950", "-b 1 -H 1 -s 100 --seqlen-k 130 -d 128 --splits 1", "fwd"),
    Kernel(
        "bwd_dq_dk_dv d64 causal",
        "gfx942",
        "-b 1 -H 1 -s 70 --seqlen-k 120 -d 64 --causal --direction bwd",
        "bwd_dq_dk_dv",
    ),
)


@dataclass(frozen=True)
class Seen:
    """The result of a run.

    Attributes:
        verdict: as in the record. findings: of the emulator. note: why it stopped, or what differs.
        outputs: digest of everything that the kernel computed; empty if it did not end.
    """

    verdict: str
    findings: tuple[dict[str, Any], ...]
    note: str
    outputs: str = ""

    @property
    def places(self) -> Counter[tuple[str, int]]:
        """The number of findings for each (kind, instruction's address)."""
        return Counter({(finding["kind"], finding["address"]): finding["count"] for finding in self.findings})


class PlantedKernel(AbstractContextManager["PlantedKernel"]):
    """One kernel, its text, and workers that run it with faults, one after the other.

    Raises on entry:
        EnvironmentProblem, KernelFailure: there is no compiler or source, or it does not build.
    """

    def __init__(self, kernel: Kernel, registry: Registry, folder: Path, seconds: float = SECONDS) -> None:
        self.kernel = kernel
        self.problem = Problem.from_cli(kernel.flags)
        self._registry, self._folder = registry, folder
        self._out = folder / "outputs.safetensors"
        self._request = Request(
            backend="ck_tile", device=f"emu:{kernel.arch}", timeout=seconds, out=str(self._out), emu_threads=1
        )
        self._stack = ExitStack()
        self._executors: dict[bool, Executor] = {}

    def __enter__(self) -> PlantedKernel:
        request, registry = self._request, self._registry
        found = probe_backends(registry, wanted_backends(registry, request.wanted), None, request.device)
        (self._row,) = plan_rows([self.problem], request, registry, found)
        assert self._row.plan is not None, f"no kernel for {self.problem.repro()}"
        stages = self._row.plan.stages
        self._stage = [s.kernel.family.value for s in stages].index(self.kernel.family)
        self._building = BuildContext(cache_root=cache_root(), jobs=2)
        built = build_stages(stages, registry, self._building)
        self._artifacts = tuple(_value(built[s.kernel.digest]) for s in stages)
        shop = workshop(self._building)
        self._compiler = shop.toolchain.argv0
        self.spec = stages[self._stage].kernel
        self.text = device_assembly(self.spec, shop)
        self._library = self._artifacts[self._stage].path.read_bytes()
        self._emulation = emulation_of(request, registry, self._building)
        self.plain = self.run()
        self.plain_strict: Seen | None = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def original(self) -> bytes:
        """The code object in the kernel's library."""
        return code_objects(self._library)[0].data

    def assembled(self, text: str) -> bytes:
        """The code object of a text. Raises ValueError if it does not assemble."""
        return assembled(text, self.kernel.arch, self._compiler, self._folder)

    def run(self, *faults: Fault, strict: bool = False) -> Seen:
        """Run the kernel with faults, or without any the reassembled original text. Raises like ``assembled``."""
        return self._judged(planted(self.text, *faults), strict)

    def reaches(self, fault: Fault) -> bool:
        """Whether any wave of this problem reaches the place of the fault."""
        return "s_trap" in self._judged(trapped(self.text, fault)).note

    def strictly(self, fault: Fault) -> Counter[tuple[str, int]]:
        """The findings of the fault alone if reads must be waited for before a barrier."""
        if self.plain_strict is None:
            self.plain_strict = self.run(strict=True)
        return self.run(fault, strict=True).places - self.plain_strict.places

    def _executor(self, strict: bool) -> Executor:
        if strict not in self._executors:
            supervisor = self._stack.enter_context(Supervisor())
            cases = Cases(lambda problem, kind: fill(problem, kind, 0), oracle_s=60.0)
            context = Context(
                request=replace(self._request, threads=1),
                registry=self._registry,
                supervisor=supervisor,
                building=self._building,
                emulation=self._emulation,
            )
            self._executors[strict] = Executor(context, cases, lambda row: None)
        return self._executors[strict]

    def _judged(self, text: str, strict: bool = False) -> Seen:
        library = with_code_object(self._library, self.assembled(text))
        digest = hashlib.sha256(library).hexdigest()
        path = self._folder / f"{digest[:24]}.so"
        path.write_bytes(library)
        self._out.unlink(missing_ok=True)
        artifacts = list(self._artifacts)
        artifacts[self._stage] = replace(artifacts[self._stage], path=path, sha256=digest)
        try:
            with _variable(STRICT, "1" if strict else "0"):
                fate = self._executor(strict).run(self._row, tuple(artifacts), 0)
        finally:
            path.unlink()
        outputs = hashlib.sha256(self._out.read_bytes()).hexdigest() if self._out.is_file() else ""
        findings = tuple(to_json(finding) for finding in fate.findings or ())
        return Seen(fate.verdict.value, findings, "; ".join(fate.notes)[:300], outputs)


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Set a variable for workers that start meanwhile."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _value(outcome: Any) -> Artifact:
    if outcome.error is not None:
        raise outcome.error
    artifact: Artifact = outcome.value
    return artifact
