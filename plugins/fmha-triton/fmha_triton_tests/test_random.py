"""500 seeded random problems: what the plugin accepts passes on emulated devices, with every configuration; a refusal has Reasons.

All of it is slow. CI runs a drawn part of the problems, which it need not count. NVIDIA's architectures are not among them: ``test_nvidia.py`` executes chosen problems there.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")
pytest.importorskip("fmha_amdgpu_emu", reason="plugins/fmha-amdgpu-emu is not installed")
if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed (pip install triton)", allow_module_level=True)

from fmha_triton import building
from fmha_triton.catalogue import function_of
from fmha_triton.emit import emit

from fmha_cli import api, conformance
from fmha_triton_tests.support.triton_problems import (
    ARCHS,
    COUNT,
    Assigned,
    AssignedBackend,
    added,
    all_marks,
    assigned,
    drawn,
)

pytestmark = pytest.mark.slow
ACCEPTED = 150
PARTS = 5
"""Parts of an architecture's problems; each is a separate test."""
PLANTED = ("(out_scale / tl.where(seen, total, 1.0))", "(out_scale)")


def chunks() -> list[Any]:
    """Every part of every architecture; one of them, the same for the same seed, is marked for CI."""
    found = [(arch, part) for part in range(PARTS) for arch in ARCHS]
    chosen = Random("chunks").randrange(len(found))
    return [pytest.param(*chunk, marks=[pytest.mark.ci] if n == chosen else []) for n, chunk in enumerate(found)]


def records_of(problems: Iterable[Assigned], arch: str, cache: str, part: int) -> tuple[api.Record, ...]:
    """The records of the problems of an architecture that are accepted, each from the kernel that it is assigned."""
    kernels = {one.problem: one.kernel for one in problems if one.arch == arch and one.kernel is not None}
    assert kernels
    backend = AssignedBackend(kernels)
    subject = conformance.Subject(backend, entry="fmha_triton", cache_root=Path(cache), beside=("fmha_amdgpu_emu",))
    fills = (conformance.FILLS[part % len(conformance.FILLS)],)
    options: dict[str, Any] = {"fills": fills, "all_kernels": False, "repeats": bool(part % 2)}
    records = conformance.judged(subject, kernels, device=f"emu:{arch}", **options)
    absent = Counter(kernel.name for kernel in kernels.values()) - Counter(r.kernel.name for r in records if r.kernel)
    assert not absent, absent
    return records  # repeated rows without an LSE stand twice, the second time with one


def faults_in(records: Iterable[api.Record]) -> str:
    """The records whose outputs are wrong or that the emulator has a finding about, as lines; empty without one."""
    return conformance.told(r for r in records if r.verdict not in conformance.RIGHT or r.findings)


def test_enough_problems_are_accepted_and_every_kind_of_kernel_is_among_them() -> None:
    accepted = [one for one in drawn() if one.kernel is not None]
    assert len(accepted) >= ACCEPTED
    print(f"{len(accepted)} of {COUNT} problems are accepted; {len(added())} were added for what chance left out")
    assert frozenset().union(*(one.marks for one in (*accepted, *added()))) == all_marks()


@pytest.mark.promise("Random problems for Triton's kernels pass on emulated AMD devices.")
@pytest.mark.parametrize(("arch", "part"), chunks())
def test_what_is_accepted_passes(arch: str, part: int, cache: str) -> None:
    own = range(ARCHS.index(arch), COUNT, len(ARCHS))
    found = faults_in(records_of([assigned(n) for n in own[part::PARTS]], arch, cache, part))
    assert not found, found


@pytest.mark.promise("Random problems for Triton's kernels pass on emulated AMD devices.")
@pytest.mark.parametrize("arch", ARCHS)
def test_what_was_added_passes(arch: str, cache: str) -> None:
    found = faults_in(records_of(added(), arch, cache, ARCHS.index(arch)))
    assert not found, found


@pytest.mark.promise("Random problems for Triton's kernels pass on emulated AMD devices.")
def test_a_planted_fault_is_noticed(cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum of every row's weights is lost."""
    planted = []

    def faulty(kernel: api.KernelSpec) -> str:
        source = emit(kernel)
        planted.append(PLANTED[0] in source)
        return source.replace(*PLANTED)

    monkeypatch.setattr(building, "emit", faulty)
    forward = [one for one in drawn() if one.kernel is not None and function_of(one.kernel) == "forward"]
    assert faults_in(records_of(forward[:1], forward[0].arch, cache, 0))
    assert all(planted)
