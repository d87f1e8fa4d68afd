"""``run --arch A`` where no device accepts A: the first line says so, before anything is fetched or compiled."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import pytest

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.run import dispatcher
from fmha_cli.run.builds import KernelOutcome
from fmha_cli.run.request import Order
from tests.cli.conftest import Fmha
from tests.support.fixtures.emulated import Told

BUILDING = "(fetching and compiling)"


@pytest.fixture
def builds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of building, print a line to stderr."""

    def build(orders: Sequence[Order], *rest: object) -> Mapping[str, KernelOutcome]:
        print(BUILDING, file=sys.stderr)
        error = EnvironmentProblem("no sources", code="S102")
        return {order.key: KernelOutcome(order.stage.kernel.name, None, error) for order in orders}

    monkeypatch.setattr(dispatcher, "build_orders", build)


@pytest.mark.promise(
    "Kernels are built from pinned sources, and NVRTC needs no GPU.",
    "A missing device is reported before anything is fetched or compiled.",
)
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("command", ["run", "validate", "bench"])
def test_the_first_line_says_so(fmha: Fmha, builds_nothing: None, command: str) -> None:
    done = fmha(command, "--arch", "sm_90", "-s", "64,128", "--json", "--offline")
    first, second, *_ = (line for line in done.err.splitlines() if not line.startswith("2 problems"))
    assert first.startswith("no device here accepts sm_90: kernels are built, and rows are NOT_RUN. `fmha build`")
    assert second == BUILDING
    assert done.code == 4
    assert {record["verdict"] for record in done.document["records"]} == {"NOT_RUN"}


@pytest.mark.slow
@pytest.mark.ci
def test_an_emulator_that_is_installed_is_named(fmha: Fmha, emulator: Told, builds_nothing: None) -> None:
    pytest.importorskip("fmha_amdgpu_emu")
    done = fmha("run", "--arch", "gfx942", "-s", "64", "--offline")
    assert "--device emu:gfx942" in done.err.splitlines()[0]


@pytest.mark.slow
@pytest.mark.ci
def test_nothing_is_said_of_a_device_that_is_here(fmha: Fmha) -> None:
    for argv in (("--backend", "null"), ("--backend", "null", "--arch", "null")):
        assert "no device here accepts" not in fmha("run", "-b", "1", "-H", "1", "-s", "8", "-d", "16", *argv).err
