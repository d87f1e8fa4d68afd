"""Small decisions of the backend itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.backends.ck_tile.backend import CkTileBackend
from fmha_cli.backends.ck_tile.situation import product_of, situation_of
from fmha_cli.backends.hip import runtime
from fmha_cli.domain.arch import arch_names, load_arch
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.problem import Problem


def test_without_a_driver_the_parent_answers_and_loads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "probe_hip", lambda: pytest.fail("the runtime was asked"))
    backend = CkTileBackend([tmp_path / "kfd"])
    found = backend.probe()
    assert backend.probes_in_parent
    assert (found.state, found.devices) == (State.NO_DEVICE, ())
    assert found.why
    assert found.help


def test_with_a_driver_the_runtime_is_asked_in_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Availability(state=State.OK)
    monkeypatch.setattr(runtime, "probe_hip", lambda: answer)
    (tmp_path / "kfd").touch()
    backend = CkTileBackend([tmp_path / "kfd"])
    assert not backend.probes_in_parent
    assert backend.probe() is answer


@pytest.mark.parametrize("arch", [name for name in arch_names() if name.startswith("gfx")])
def test_the_product_that_stands_for_an_architecture_is_one_of_its_products(arch: str) -> None:
    facts = load_arch(arch).facts
    count, product = product_of(arch)
    units = count * (2 if facts.get("wavefront_size", {}).get("value") == 32 else 1)
    assert ("compute_units" in facts) == bool(units)
    assert not units or facts["products"]["value"][product] == units


def test_half_as_many_multiprocessors_where_waves_have_32_lanes() -> None:
    assert [
        situation_of(Problem.of(), DeviceFacts.of_arch(arch)).multiprocessors for arch in ("gfx942", "gfx1201")
    ] == [304, 32]
