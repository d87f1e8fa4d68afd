"""The null backend as a plugin: conformance, kernels, decisions, plans, and the facts of its architecture."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fmha_null import backend, fmha_register_arch_specs
from fmha_null.kernels import HDIM, Behaviour, behaviour_of, combine_kernels, main_kernels

from fmha_cli import conformance
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.decision import Supported, Unsupported
from fmha_cli.domain.device import DeviceFacts, State
from fmha_cli.domain.kernel import Family, parse_kernel
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend, BuildContext

DEVICE = DeviceFacts(id="null", archs=("null",))


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Callable[[conformance.Subject], None], tmp_path: Path) -> None:
    specs = fmha_register_arch_specs()
    check(conformance.Subject(backend, entry="fmha_null", cache_root=tmp_path / "cache", arch_specs=specs))


def test_its_architecture_comes_with_it() -> None:
    registry = build_registry()
    assert "null" in registry.arch_names()
    spec = registry.arch("null")
    assert (spec.name, spec.vendor, spec.fact("max_hdim")) == ("null", "cpu", HDIM)
    assert registry.entry_point("null") == "fmha_null"


def test_it_is_a_backend_that_auto_leaves_alone() -> None:
    assert isinstance(backend, Backend)
    assert not backend.automatic
    assert backend.probe().state is State.OK


def test_names_come_back_as_kernels() -> None:
    kernels = list(backend.kernels(build_registry().arch("null")))
    assert len({k.digest for k in kernels}) == len(kernels) == len(list(main_kernels())) + len(list(combine_kernels()))
    assert [parse_kernel(k.name, {"null": backend.algorithm}) for k in kernels] == kernels
    assert not list(backend.kernels(build_registry().arch("generic")))


def test_honest_kernels_come_first() -> None:
    found = [d for d in backend.decide(Problem.from_cli("-d 64 --lse"), DEVICE) if isinstance(d, Supported)]
    ranked = sorted(found, key=lambda d: d.rank)
    assert [behaviour_of(d.kernel) for d in ranked[:2]] == [Behaviour.HONEST] * 2
    assert [d.kernel.family for d in ranked[:2]] == [Family.FWD, Family.FWD_SPLITKV]
    assert {behaviour_of(d.kernel) for d in found} == set(Behaviour)


def test_a_split_is_planned_where_it_is_asked_for() -> None:
    found = [d for d in backend.decide(Problem.from_cli("-d 64 --splits 4"), DEVICE) if isinstance(d, Supported)]
    assert {d.kernel.family for d in found} == {Family.FWD_SPLITKV}
    assert [behaviour_of(d.kernel) for d in found] == [Behaviour.HONEST, Behaviour.SPLIT_BY_BATCH]
    plan = backend.plan(Problem.from_cli("-b 2 -H 3 -s 5 -d 64 --splits 4"), found[0].kernel, DEVICE)
    assert [s.family for s in plan.stages] == [Family.FWD_SPLITKV, Family.FWD_SPLITKV_COMBINE]
    assert plan.main == found[0].kernel
    assert plan.splits == 4
    assert plan.workspace_bytes == 4 * (2 * 3 * 5) * (64 + 1) * 4


def test_every_refusal_has_reasons() -> None:
    for flags in ("--dropout 0.5", "--direction bwd", "-d 600", "--dtype fp8_e4m3", "--qscale tensor"):
        found = list(backend.decide(Problem.from_cli(flags), DEVICE))
        assert found
        assert all(isinstance(d, Unsupported) and d.reasons for d in found), flags


def test_a_kernel_is_built_once(tmp_path: Path) -> None:
    (decision, *_) = backend.decide(Problem.from_cli("-d 64 --dtype fp32"), DEVICE)
    assert isinstance(decision, Supported)
    (stage,) = backend.plan(Problem.from_cli("-d 64 --dtype fp32"), decision.kernel, DEVICE).stages
    backend.build(stage, BuildContext(tmp_path / "cache"))
    assert backend.build(stage, BuildContext(tmp_path / "cache")).cached


def test_listing_its_kernels_imports_no_numpy() -> None:
    code = (
        "import sys; from fmha_cli import api; "
        "assert list(api.list_kernels('null', backend='null')); print('numpy' in sys.modules)"
    )
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    env = {**os.environ, "PYTHONPATH": path}
    assert (
        subprocess.run([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, check=True).stdout == b"False\n"
    )
