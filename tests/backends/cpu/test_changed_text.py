"""A kernel whose text has changed is another build and another tuned choice: nothing that was kept of the old one is used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli.backends.cpu import building
from fmha_cli.backends.cpu.building import cpu_key
from fmha_cli.bench.roofline import CacheState
from fmha_cli.discovery.registry import build_registry
from fmha_cli.discovery.select import Choice
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.run.origin import this_host
from fmha_cli.run.tuned_choice import Scopes
from tests.support.builds.planted_cpu import planted
from tests.support.generators.cpu.cases import BEST, kernel_of
from tests.support.models.faults import ExtremeFault

KINDS = ("prefill", "decode", "split", "combine", "backward")


def older(kernel: KernelSpec) -> str:
    """The text as it was when it scaled the maximum first."""
    return planted(kernel, ExtremeFault.SCALED_MAXIMUM)


@pytest.mark.parametrize("kind", KINDS)
def test_an_artifact_of_another_text_is_not_used(
    shared_cache: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, context = kernel_of(BEST, "fp32", kind), BuildContext(cache_root=shared_cache)
    now = cpu_key(Stage(kernel), context)
    assert cpu_key(Stage(kernel), context) == now
    monkeypatch.setattr(building, "emit", older)
    before = cpu_key(Stage(kernel), context)
    assert (before.digest, before.spec.source_sha256) != (now.digest, now.spec.source_sha256)
    assert before.digest != now.digest


def test_a_tuned_choice_of_another_text_is_not_used(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = build_registry()
    backend = registry.backend("cpu")
    device = backend.probe().devices[0]
    scopes = Scopes(
        registry=registry, found={}, building=BuildContext(cache_root=shared_cache), host=this_host(), threads=1
    )
    problem = Problem.from_cli("-H 2 -s 64 -d 32 --dtype fp32")
    choices = [Choice(Supported(kernel_of(BEST, "fp32", kind), (0,)), device) for kind in ("prefill", "decode")]
    now = scopes.of(problem, choices, CacheState.HOT)
    assert now.digest == scopes.of(problem, choices, CacheState.HOT).digest
    monkeypatch.setattr(building, "emit", older)
    before = scopes.of(problem, choices, CacheState.HOT)
    assert before.digest != now.digest
    assert [text.split()[0] for text in before.differences(now)] == ["source"]
    assert replace(before, source=now.source) == now
