"""The multiprocessors of an NVIDIA device, on which host code bases grids and splits."""

from __future__ import annotations

from functools import cache

from fmha_cli.backends.gpu.devices import multiprocessors_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.device import DeviceFacts


def multiprocessors(device: DeviceFacts) -> tuple[int, str]:
    """(multiprocessors of a device, where the number comes from). See ``gpu.devices.multiprocessors_of``."""
    return multiprocessors_of(device, _product_of)


@cache
def _product_of(arch: str) -> tuple[int, str]:
    """(multiprocessors, name) of an architecture's reference product; (0, "") where its facts name none."""
    facts = load_arch(arch).facts
    return (int(facts["sm_count"]["value"]), str(facts["product"]["value"])) if "sm_count" in facts else (0, "")
