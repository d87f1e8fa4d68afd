from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given

from fmha_cli.discovery.hookspecs import hookimpl
from fmha_cli.discovery.registry import Registry
from fmha_cli.discovery.select import Selection, select
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.arch import arch_names
from fmha_cli.domain.decision import Decision, Supported, Unsupported
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.errors import EnvironmentProblem, UnsupportedError, UsageError
from fmha_cli.domain.problem import Problem
from tests.support.fakes.paper_backends import PaperBackend, checked
from tests.support.generators.strategies import problems

GPU = DeviceFacts(id="cuda:0", archs=("sm_90a", "sm_90"))
CPU = DeviceFacts(id="cpu", archs=("x86_64_v4", "x86_64_v3", "generic"))
ARCH = '{{"schema": "fmha.arch/1", "name": "{0}", "vendor": "test", "title": "{0}", "facts": {{}}}}'
FP16 = Problem.of()


@cache
def registry(*backends: PaperBackend) -> Registry:
    class Module:
        @hookimpl
        def fmha_register_backends(self) -> list[Any]:
            return [checked(b) for b in backends]

        @hookimpl
        def fmha_register_arch_specs(self) -> dict[str, str]:
            names = ("sm_90a", "sm_90", "sm_80", "gfx942", "x86_64_v4", "generic")
            return {a: ARCH.format(a) for a in names if a not in arch_names()}

    entry = SimpleNamespace(name="paper", value="paper", dist=None, load=Module)
    return Registry({}, lambda: [entry])  # type: ignore[list-item]


GPU_BACKEND = PaperBackend("gpu", ("sm_90a", "sm_80"))
CPU_BACKEND = PaperBackend("host", ("x86_64_v4", "generic"))
HIDDEN = PaperBackend("hidden", ("generic",), automatic=False)
HERE = {"gpu": Availability(state=State.OK, devices=(GPU,)), "host": Availability(state=State.OK, devices=(CPU,))}
NO_GPU = {"gpu": GPU_BACKEND.probe(), "host": HERE["host"]}


def chosen(found: Mapping[str, Availability], problem: Problem = FP16, **wanted: Any) -> Selection:
    return select(problem, registry(GPU_BACKEND, CPU_BACKEND, HIDDEN), found, Wanted(**wanted))


def test_the_gpu_comes_first_then_the_cpu() -> None:
    best = chosen(HERE).best
    assert best is not None
    assert (best.device.id, best.kernel.arch, best.decision.rank) == ("cuda:0", "sm_90a", (0,))
    fallback = chosen(NO_GPU).best
    assert fallback is not None
    assert (fallback.device.id, fallback.kernel.arch) == ("cpu", "x86_64_v4")
    assert [r.id for r in chosen(NO_GPU).trace.reasons()] == ["K023"]


def test_ranks_of_two_backends_are_not_compared() -> None:
    """The first backend's kernels come first although their ranks are higher than those of the second backend."""

    class Modest(PaperBackend):
        def decide(self, problem: Problem, device: DeviceFacts) -> Iterator[Decision]:
            for decision in super().decide(problem, device):
                yield replace(decision, rank=(7,)) if isinstance(decision, Supported) else decision

    first, second = Modest("first", ("sm_90",)), PaperBackend("second", ("sm_90",))
    found = dict.fromkeys(("first", "second"), HERE["gpu"])
    choices = select(FP16, registry(first, second), found, Wanted()).choices
    names = [choice.kernel.backend for choice in choices]
    assert (names[0], names) == ("first", sorted(names))
    assert {"first", "second"} == set(names)


def test_only_named_backends_that_are_not_automatic() -> None:
    assert {d.backend for d in chosen(HERE).trace.decisions} == {"gpu", "host"}
    with_hidden = HERE | {"hidden": Availability(state=State.OK, devices=(CPU,))}
    best = chosen(with_hidden, backend="hidden").best
    assert best is not None
    assert best.kernel.backend == "hidden"


def test_arch_without_a_device_is_chosen_but_not_runnable() -> None:
    best = chosen(NO_GPU, arch="sm_90a").best
    assert best is not None
    assert not best.runnable
    assert best.kernel.arch == "sm_90a"
    restricted = chosen(HERE, arch="generic").best
    assert restricted is not None
    assert restricted.runnable
    assert restricted.kernel.arch == "generic"


def test_arch_without_kernels_has_a_reason() -> None:
    selection = chosen(HERE, arch="gfx942")
    assert selection.best is None
    assert {r.id for r in selection.trace.reasons()} == {"K022"}
    with pytest.raises(UsageError, match="no such architecture"):
        chosen(HERE, arch="gfx9999")


def test_devices_that_are_not_here() -> None:
    with pytest.raises(EnvironmentProblem, match="no device here"):
        chosen(NO_GPU, backend="gpu")
    with pytest.raises(EnvironmentProblem, match="cuda:7"):
        chosen(HERE, backend="gpu", device="cuda:7")
    assert chosen(HERE, device="cpu").best is not None


def test_a_kernel_by_name_digest_and_upstream_name() -> None:
    kernel = list(GPU_BACKEND.of("sm_90a"))[1]
    for text in (kernel.name, kernel.digest[:8], kernel.digest, "paper_sm_90a_64"):
        best = chosen(HERE, kernel=text).best
        assert best is not None
        assert best.kernel == kernel


def test_a_kernel_that_is_not_there() -> None:
    for text in ("nope", "0123", "0" * 16, next(iter(GPU_BACKEND.of("sm_70"))).name):
        with pytest.raises(UsageError, match="no such kernel"):
            chosen(HERE, kernel=text)


def test_a_kernel_that_a_rule_refuses() -> None:
    kernel = next(iter(GPU_BACKEND.of("sm_90a")))
    with pytest.raises(UnsupportedError) as caught:
        chosen(HERE, Problem.of(softcap=3, hdim=300), kernel=kernel.name)
    assert caught.value.code in ("K008", "K012")
    assert "K008" in str(caught.value.why)


@pytest.mark.promise("Every backend answers whether it supports a problem, and gives its reasons if not.")
@given(problems())
def test_select_always_answers_with_a_kernel_or_reasons(problem: Problem) -> None:
    selection = select(problem, registry(GPU_BACKEND, CPU_BACKEND), HERE, Wanted())
    assert selection.trace.decisions
    for decision in selection.trace.decisions:
        if isinstance(decision, Unsupported):
            assert decision.reasons
        else:
            assert isinstance(decision, Supported)
    assert (selection.best is None) == (not selection.trace.supported)
    if selection.best is None:
        assert selection.trace.reasons()
