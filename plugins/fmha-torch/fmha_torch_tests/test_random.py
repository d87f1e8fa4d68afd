"""500 seeded random problems: what the plugin accepts passes, with every kernel of the CPU in turn; a refusal has Reasons."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli import api, conformance, plugin
from tests.support.generators.problems import supported

fmha_torch = pytest.importorskip("fmha_torch", reason="plugins/fmha-torch is not installed")

from fmha_torch.kernels import TorchAlgorithm, Way, kernels_of  # noqa: E402 - the plugin may not be installed

COUNT, EACH = 500, 50
ACCEPTED = 150
COMPILED = 16
"""One in this many problems that compiled flex_attention takes goes to it: each costs a compile."""
CPU = plugin.DeviceFacts(id="cpu", archs=("generic",))


class Rotating(fmha_torch.TorchBackend):
    """Prefers another kernel for every problem, so all of them run."""

    def decide(self, problem: api.Problem, device: plugin.DeviceFacts) -> Iterator[api.Decision]:
        number = zlib.crc32(problem.repro().encode())
        for decision in super().decide(problem, device):
            if isinstance(decision, api.Supported):
                assert isinstance(decision.kernel.algorithm, TorchAlgorithm)
                compiled = decision.kernel.algorithm.way is Way.FLEX_COMPILED
                turn = (
                    -1
                    if compiled and number % COMPILED == 0
                    else 99
                    if compiled
                    else zlib.crc32(f"{number} {decision.kernel.algorithm}".encode()) % 99
                )
                decision = replace(decision, rank=(turn, *decision.rank))
            yield decision


def chosen(problem: api.Problem) -> api.KernelSpec | None:
    """The kernel of a problem; refusals have reasons."""
    decisions = list(Rotating().decide(problem, CPU))
    for decision in decisions:
        if isinstance(decision, api.Unsupported):
            assert all(reason.text and reason.id for reason in decision.reasons), problem.repro()
    fitting = [d for d in decisions if isinstance(d, api.Supported)]
    return min(fitting, key=lambda d: d.rank).kernel if fitting else None


def test_enough_problems_are_accepted_and_every_kernel_is_among_them() -> None:
    kernels = [chosen(supported(n)) for n in range(COUNT)]
    accepted = [kernel for kernel in kernels if kernel is not None]
    assert len(accepted) >= ACCEPTED
    forms = Counter((kernel.family, kernel.algorithm) for kernel in accepted)
    assert set(forms) == {(kernel.family, kernel.algorithm) for kernel in kernels_of("generic")}, forms


@pytest.mark.promise("PyTorch, ONNX Runtime and OpenVINO run as backends, by rules that the libraries confirm.")
@pytest.mark.parametrize("chunk", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, COUNT // EACH))])
def test_what_is_accepted_passes(chunk: int, shared_cache: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed (extra: peers)")
    subject = conformance.Subject(Rotating(), entry="fmha_torch", cache_root=shared_cache)
    problems = [supported(n) for n in range(EACH * chunk, EACH * (chunk + 1))]
    taken = {problem: kernel for problem in problems if (kernel := chosen(problem)) is not None}
    fills, threads = (conformance.FILLS[chunk % len(conformance.FILLS)],), 1 + chunk % 2
    options = {"fills": fills, "all_kernels": False, "repeats": bool(chunk % 2), "threads": threads}
    records = conformance.judged(subject, taken, **options)
    bad = [r for r in records if r.verdict not in conformance.RIGHT]
    assert not bad, conformance.told(bad)
    assert not [note for r in records for note in r.notes if "finding" in note]
    assert len(records) >= len(taken)
