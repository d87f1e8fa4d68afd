"""Devices for the tests of ``benchmarks/gpu_check.py``: a backend's probe runs once in the worker."""

from __future__ import annotations

from functools import cache

import pytest

from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.run.supervisor import Supervisor


@cache
def availability(backend: str) -> Availability:
    """The result of a backend's probe."""
    with Supervisor() as supervisor:
        return supervisor.probe(build_registry().entry_point(backend), backend)


def device_or_skip(backend: str, kind: str) -> DeviceFacts:
    """The first device; without one, skips the test with the probe's reason."""
    found = availability(backend)
    if found.state is not State.OK:
        pytest.skip(f"no {kind} GPU: {found.why}")
    return found.devices[0]
