"""Which HIP errors leave the device usable, on a runtime whose every call returns one status."""

from __future__ import annotations

import ctypes
from enum import IntEnum

import pytest

from fmha_cli.backends.gpu.driver import DriverError, DriverLost
from fmha_cli.backends.hip.runtime import Hip
from fmha_cli.domain.errors import DeviceLost


class Status(IntEnum):
    """Some of ``hipError_t``."""

    INVALID_VALUE = 1
    ILLEGAL_ADDRESS = 700
    LAUNCH_OUT_OF_RESOURCES = 701
    ASSERT = 710
    LAUNCH_FAILURE = 719
    COOPERATIVE_LAUNCH_TOO_LARGE = 720


class Answering:
    """Bindings whose calls all return one status."""

    hipError_t = Status  # noqa: N815 - hip-python's name

    def __init__(self, status: Status) -> None:
        self._status = status

    def hipStreamSynchronize(self, stream: object) -> tuple[Status]:  # noqa: N802 - hip-python's name
        return (self._status,)

    def hipGetErrorString(self, status: Status) -> tuple[int, str]:  # noqa: N802 - hip-python's name
        return 0, status.name.lower()


@pytest.mark.parametrize(
    ("status", "lost"),
    [
        (Status.INVALID_VALUE, False),
        (Status.ILLEGAL_ADDRESS, True),
        (Status.LAUNCH_OUT_OF_RESOURCES, False),
        (Status.ASSERT, True),
        (Status.LAUNCH_FAILURE, True),
        (Status.COOPERATIVE_LAUNCH_TOO_LARGE, False),
    ],
)
def test_a_ruined_context_is_a_lost_device(status: Status, lost: bool) -> None:
    hip = Hip(Answering(status), ctypes.CDLL(None))
    with pytest.raises(DriverError) as fault:
        hip.synchronize(None)
    assert hip.lost is lost
    assert isinstance(fault.value, DeviceLost) is isinstance(fault.value, DriverLost) is lost
    assert (fault.value.code, fault.value.number) == ("H001", status)
    assert str(int(status)) in fault.value.what
