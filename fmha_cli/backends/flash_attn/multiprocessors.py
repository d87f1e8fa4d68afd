"""How many multiprocessors a device has, also when only its architecture is known."""

from __future__ import annotations

from functools import cache

from fmha_cli.arch import load_arch
from fmha_cli.device import DeviceFacts

COUNT, PRODUCT = "sm_count", "product"
UNKNOWN_UNITS = 1
"""``DeviceFacts.units`` of a device of which only the architecture is known."""


def multiprocessors_of(device: DeviceFacts) -> tuple[int, str]:
    """(``get_num_sm`` of the device, how it is known). Without a device it is that of the architecture's product."""
    if device.id != "none" and device.units > UNKNOWN_UNITS:
        return device.units, f"{device.units} multiprocessors of {device.id}"
    for arch in device.archs:
        count, product = _product_of(arch)
        if count:
            return count, f"{count} multiprocessors assumed, those of the product {product}: no device known"
    return UNKNOWN_UNITS, "one multiprocessor assumed: neither device nor product known"


@cache
def _product_of(arch: str) -> tuple[int, str]:
    """(multiprocessors, name) of the product that stands for an architecture; (0, "") where its facts state none."""
    facts = load_arch(arch).facts
    return (int(facts[COUNT]["value"]), str(facts[PRODUCT]["value"])) if COUNT in facts else (0, "")
