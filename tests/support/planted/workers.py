"""What planting faults has in common on every emulated device: a kernel's plan and artifacts, workers, and judged runs of another artifact.

``assembly_runs.py`` and ``ptx_runs.py`` say how a fault gets into an artifact. A worker that dies or hangs costs one run; the next
one gets a fresh worker.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fmha_cli.api import Problem, Registry
from fmha_cli.discovery.wanted import wanted_backends
from fmha_cli.domain.codec import to_json
from fmha_cli.domain.verdict import Verdict
from fmha_cli.plugin import Artifact, BuildContext, Stage, cache_root
from fmha_cli.run.builds import build_orders, emulation_of
from fmha_cli.run.execute import Executor
from fmha_cli.run.probing import probe_backends
from fmha_cli.run.request import Context, Order, Request
from fmha_cli.run.rows import plan_rows
from fmha_cli.run.supervisor import Supervisor
from tests.support.careful import CAREFUL

PATIENCE = 10
"""How many times the limit a careful run may take."""


@dataclass(frozen=True)
class Seen:
    """The result of a run.

    Attributes:
        verdict: as in the record. findings: of the emulator. note: why it stopped, or what differs.
        outputs: digest of everything that the kernel computed; empty if it did not end.
        executed: the emulator's counts.
        wrong: whether an output is wrong, also where the verdict names the findings.
    """

    verdict: str
    findings: tuple[dict[str, Any], ...]
    note: str
    outputs: str = ""
    executed: tuple[dict[str, Any], ...] = ()
    wrong: bool = False

    @property
    def places(self) -> Counter[tuple[str, int]]:
        """The number of findings for each (kind, instruction's address)."""
        return Counter({(finding["kind"], finding["address"]): finding["count"] for finding in self.findings})


class PlantedWorkers(AbstractContextManager[Any]):
    """One kernel of a problem's plan, and workers that run the plan with another artifact for it.

    Raises on entry:
        EnvironmentProblem, KernelFailure: there is no compiler or source, or it does not build.
        ValueError: no kernel for the problem.
    """

    def __init__(
        self,
        backend: str,
        arch: str,
        flags: str,
        registry: Registry,
        folder: Path,
        seconds: float,
        kernel: str | None = None,
    ) -> None:
        self.problem = Problem.from_cli(flags)
        self._registry, self._folder = registry, folder
        self._out = folder / "outputs.safetensors"
        device = f"emu:{arch}"
        self._request = Request(
            backend=backend, device=device, kernel=kernel, timeout=seconds, out=str(self._out), emu_threads=1
        )
        self._stack = ExitStack()
        self._executors: dict[Hashable, Executor] = {}

    def __enter__(self) -> Self:
        request, registry = self._request, self._registry
        found = probe_backends(registry, wanted_backends(registry, request.wanted), None, request.device)
        (self._row,) = plan_rows([self.problem], request, registry, found)
        if self._row.plan is None:
            raise ValueError(f"no kernel for {self.problem.repro()} on {request.device}")
        stages = self._row.plan.stages
        self._stage = self._place(stages)
        self._building = BuildContext(cache_root=cache_root(), jobs=2)
        built = build_orders(map(Order, stages), registry, self._building)
        self._artifacts = tuple(_value(built[s.kernel.digest]) for s in stages)
        self.spec = stages[self._stage].kernel
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _place(self, stages: Sequence[Stage]) -> int:
        """Which stage of the plan is the kernel to plant in."""
        raise NotImplementedError

    @property
    def _artifact(self) -> Artifact:
        return self._artifacts[self._stage]

    def _executor(self, key: Hashable, request: Request) -> Executor:
        """The executor of a key, with its own worker."""
        if key not in self._executors:
            context = Context(
                request=replace(request, threads=1, oracle_s=60.0),
                registry=self._registry,
                supervisor=self._stack.enter_context(Supervisor()),
                building=self._building,
                emulation=emulation_of(request, self._registry, self._building),
            )
            self._executors[key] = Executor(context)
        return self._executors[key]

    def _seen(self, key: Hashable, request: Request, artifact: Artifact) -> Seen:
        """Run the plan with ``artifact`` in the kernel's place.

        Raises:
            AssertionError: a careful run, where one was asked for, ends otherwise, and a second fast one does not (addresses differ in each process).
        """
        seen = self._run(key, request, artifact)
        if CAREFUL in os.environ and seen.verdict != "TIMED_OUT":
            careful = replace(request, emu_careful=True, timeout=request.timeout * PATIENCE)
            again = self._run((key, CAREFUL), careful, artifact)
            if not _alike(again, seen) and _alike(self._run((key, "again"), request, artifact), seen):
                raise AssertionError(f"a careful run ends otherwise: {again}, not {seen}")
        return seen

    def _run(self, key: Hashable, request: Request, artifact: Artifact) -> Seen:
        self._out.unlink(missing_ok=True)
        artifacts = list(self._artifacts)
        artifacts[self._stage] = artifact
        fate = self._executor(key, request).run([self._row], [tuple(artifacts)])[0]
        outputs = hashlib.sha256(self._out.read_bytes()).hexdigest() if self._out.is_file() else ""
        findings = tuple(to_json(finding) for finding in fate.findings or ())
        executed = tuple(to_json(counts) for counts in fate.executed or ())
        wrong = any(one.verdict is Verdict.WRONG for one in fate.comparisons)
        return Seen(fate.verdict.value, findings, "; ".join(fate.notes)[:600], outputs, executed, wrong)


def _alike(one: Seen, other: Seen) -> bool:
    """Whether both are the same but for host addresses."""
    texts = {re.sub("0x[0-9a-f]{9,}", "an address", repr(seen)) for seen in (one, other)}
    return len(texts) == 1


def _value(outcome: object) -> Artifact:
    error = getattr(outcome, "error", None)
    if error is not None:
        raise error
    artifact: Artifact = outcome.value  # type: ignore[attr-defined]
    return artifact
