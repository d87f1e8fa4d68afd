"""The backend's own small decisions."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.backends.ck_tile.backend import CkTileBackend
from fmha_cli.backends.hip import probe
from fmha_cli.device import Availability, State


def test_without_a_driver_the_parent_answers_and_loads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "probe_hip", lambda: pytest.fail("the runtime was asked"))
    backend = CkTileBackend([tmp_path / "kfd"])
    found = backend.probe()
    assert backend.probes_in_parent
    assert (found.state, found.devices) == (State.NO_DEVICE, ())
    assert found.why
    assert found.help


def test_with_a_driver_the_runtime_is_asked_in_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Availability(state=State.OK)
    monkeypatch.setattr(probe, "probe_hip", lambda: answer)
    (tmp_path / "kfd").touch()
    backend = CkTileBackend([tmp_path / "kfd"])
    assert not backend.probes_in_parent
    assert backend.probe() is answer
