"""The properties of a device that a backend needs: its number and its multiprocessors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.errors import EnvironmentProblem

UNKNOWN_UNITS = 1
"""``DeviceFacts.units`` of a device whose architecture alone is known."""


def report_undriven(vendor: str, driver: Path) -> Availability:
    """The result of a probe on a machine where the device file of a vendor's driver is missing. No device is opened."""
    return Availability(
        state=State.NO_DEVICE,
        why=f"no {vendor} GPU driver is loaded here ({driver} is missing)",
        help="--arch A builds for an architecture without one",
    )


def device_number(device: DeviceFacts, kind: str, code: str) -> int:
    """The number N of the device ``KIND:N``.

    Raises:
        EnvironmentProblem: the device is of another kind. The error has the given code.
    """
    found, _, number = device.id.partition(":")
    if found != kind or not number.isdigit():
        raise EnvironmentProblem(
            f"{device.id} is not a {kind.upper()} device",
            code=code,
            where="--device",
            help=f"{kind}:0; `fmha devices` lists them",
        )
    return int(number)


def multiprocessors_of(device: DeviceFacts, product_of: Callable[[str], tuple[int, str]]) -> tuple[int, str]:
    """(multiprocessors of a device, where the number comes from).

    Without a device the number is that of the architecture's reference product.

    Args:
        product_of: returns (multiprocessors, name) of an architecture's reference product; 0 multiprocessors where it
            has none.
    """
    if device.id != "none" and device.units > UNKNOWN_UNITS:
        return device.units, f"{device.units} multiprocessors of {device.id}"
    for arch in device.archs:
        count, product = product_of(arch)
        if count:
            return count, f"{count} multiprocessors assumed, as on the product {product}, because no device is known"
    return UNKNOWN_UNITS, "one multiprocessor assumed: neither a device nor a product is known"
